//! The JSON schemas in `docs/formats` match the types that are written.
//!
//! `UPDATE_SCHEMAS=1 cargo test -p jitlat schemas` rewrites them.

use jitlat_archive::show::comparison::PartsComparison;
use jitlat_archive::show::groups::DatasetDocument;
use jitlat_archive::show::periods::QueryDocument;
use jitlat_archive::show::{ListDocument, PushesDocument};
use jitlat_core::class_paths::ClassPaths;
use jitlat_core::path::Path as NetworkPath;
use jitlat_output::along::CurveDocument;
use jitlat_output::attenuation::{PartsDocument, SegmentsReport};
use jitlat_output::captures::WebRtcDocument;
use jitlat_output::checkup::DoctorDocument;
use jitlat_output::phases::PhasesDocument;
use jitlat_output::rpm::RpmDocument;
use jitlat_output::sweep::SweepDocument;
use jitlat_output::systems::zabbix::ZabbixDocument;
use jitlat_store::json::SummaryDocument;
use jitlat_store::passive::{CaptureDocument, OnePointDocument, RtpDocument, SppDocument, TcpDocument};
use jitlat_verdict::compare;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A document that is written as JSON.
struct Published {
    /// Name of the file without `.schema.json`.
    name: &'static str,
    /// Command that writes the document, and page that describes it.
    about: &'static str,
    schema: fn() -> Schema,
}

const PUBLISHED: [Published; 24] = [
    Published {
        name: "summary",
        about: "What --json of a test or an analysis writes: the summary of one direction, of both, or of several runs. See \
                json.md.",
        schema: summary,
    },
    Published {
        name: "compare",
        about: "What jitlat compare --json writes. See compare.md.",
        schema: schema_of::<compare::ComparisonGrid>,
    },
    Published {
        name: "along",
        about: "What jitlat compare --along --json writes: the figures of saved tests against a number. See compare.md.",
        schema: schema_of::<CurveDocument<'_>>,
    },
    Published {
        name: "segments",
        about: "What jitlat compare --attenuation --json writes: segments of a path, composed and subtracted. See compare.md.",
        schema: schema_of::<SegmentsReport>,
    },
    Published {
        name: "archive-ls",
        about: "What jitlat archive ls --json writes. See archive.md in the guide.",
        schema: schema_of::<ListDocument<'_>>,
    },
    Published {
        name: "archive-query",
        about: "What jitlat archive query --json writes. See archive.md in the guide.",
        schema: schema_of::<QueryDocument<'_>>,
    },
    Published {
        name: "archive-compare",
        about: "What jitlat archive compare --json writes. See archive.md in the guide.",
        schema: schema_of::<PartsComparison<'_>>,
    },
    Published {
        name: "archive-pushes",
        about: "What jitlat archive pushes --json writes. See archive.md in the guide.",
        schema: schema_of::<PushesDocument>,
    },
    Published {
        name: "lake-manifest",
        about: "The manifests of a lake, which jitlat archive publish writes. See lake.md.",
        schema: schema_of::<jitlat_archive::Manifest>,
    },
    Published {
        name: "archive-result",
        about: "A line that jitlat archive stream sends. See stream.md.",
        schema: schema_of::<jitlat_archive::ArchivedResult>,
    },
    Published {
        name: "dataset",
        about: "What jitlat analyze --dataset --json writes. See archive.md in the guide.",
        schema: schema_of::<DatasetDocument>,
    },
    Published {
        name: "doctor",
        about: "What jitlat doctor --json writes. See doctor.md.",
        schema: schema_of::<DoctorDocument<'_>>,
    },
    Published {
        name: "zabbix",
        about: "What --as zabbix writes. See systems.md.",
        schema: schema_of::<ZabbixDocument>,
    },
    Published {
        name: "monitor-plan",
        about: "What jitlat monitor --plan --json writes. See monitoring.md in the guide.",
        schema: schema_of::<jitlat_monitor::MonitorPlan>,
    },
    Published {
        name: "path",
        about: "What jitlat path --json writes. See path.md.",
        schema: schema_of::<NetworkPath>,
    },
    Published {
        name: "paths",
        about: "What jitlat path --classes --json writes. See path.md.",
        schema: schema_of::<ClassPaths>,
    },
    Published {
        name: "phases",
        about: "What a test with --load and --json writes: the test idle, then under load. See sweep.md.",
        schema: schema_of::<PhasesDocument<'_>>,
    },
    Published {
        name: "rpm",
        about: "What jitlat rpm --json writes. See rpm.md.",
        schema: schema_of::<RpmDocument<'_>>,
    },
    Published {
        name: "sweep",
        about: "What jitlat sweep --json writes. See sweep.md.",
        schema: schema_of::<SweepDocument<'_>>,
    },
    Published {
        name: "one-point",
        about: "What jitlat spp --one-point --json writes. See passive-json.md.",
        schema: schema_of::<OnePointDocument<'_>>,
    },
    Published {
        name: "rtp",
        about: "What jitlat rtp --json writes. See passive-json.md.",
        schema: schema_of::<RtpDocument<'_>>,
    },
    Published {
        name: "webrtc",
        about: "What jitlat rtp --json writes for the dump of a browser. See passive-json.md.",
        schema: schema_of::<WebRtcDocument<'_>>,
    },
    Published {
        name: "spp",
        about: "What jitlat spp --json writes. See passive-json.md.",
        schema: schema_of::<SppDocument<'_>>,
    },
    Published {
        name: "tcp",
        about: "What jitlat tcp --json writes. See passive-json.md.",
        schema: schema_of::<TcpDocument<'_>>,
    },
];

/// Definitions that several documents share, and the document whose schema contains them.
const SHARED: [(&str, &str); 2] = [("Summary", "summary"), ("Comparison", "compare")];

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().for_serialize()
}

fn schema_of<T: JsonSchema>() -> Schema {
    settings().into_generator().into_root_schema_for::<T>()
}

/// Schema of summaries; with `--capture` a test also has the captured traffic, with `--attenuation` the parts of delay.
fn summary() -> Schema {
    let mut generator = settings().into_generator();
    let capture = generator.subschema_for::<CaptureDocument<'_>>();
    let attenuation = generator.subschema_for::<PartsDocument>();
    let mut schema = generator.into_root_schema_for::<SummaryDocument<'_>>();
    let summary = schema.pointer_mut("/$defs/Summary/properties").and_then(Value::as_object_mut);
    let summary = summary.unwrap();
    summary.insert("capture".to_owned(), capture.to_value());
    summary.insert("attenuation".to_owned(), attenuation.to_value());
    schema
}

impl Published {
    fn generate(&self) -> String {
        let mut schema = (self.schema)().to_value();
        refer_to_others(&mut schema, self.name);
        keep_what_is_used(&mut schema);
        without_rust(&mut schema);
        schema["title"] = format!("jitlat {}", self.name).into();
        schema["description"] =
            format!("{} Nanoseconds unless a name says otherwise; null is undefined.", self.about).into();
        serde_json::to_string_pretty(&schema).unwrap() + "\n"
    }
}

/// Path of a file next to the pages of the formats.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats").join(name)
}

/// Description of the page's API for programs.
fn openapi() -> String {
    let mut document = jitlat_web::openapi();
    without_rust(&mut document);
    serde_json::to_string_pretty(&document).unwrap() + "\n"
}

/// Calls `change` for every object within `value`.
fn for_each_object(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            change(object);
            object.values_mut().for_each(|v| for_each_object(v, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|v| for_each_object(v, change)),
        _ => {}
    }
}

/// Replaces definitions of other schemas by references to them.
fn refer_to_others(schema: &mut Value, name: &str) {
    for (definition, owner) in SHARED.iter().filter(|(_, owner)| *owner != name) {
        let here = json!(format!("#/$defs/{definition}"));
        for_each_object(schema, &mut |object| {
            if object.get("$ref") == Some(&here) {
                object["$ref"] = format!("{owner}.schema.json#/$defs/{definition}").into();
            }
        });
    }
}

/// Removes definitions that are not referenced any more.
fn keep_what_is_used(schema: &mut Value) {
    let Some(Value::Object(mut definitions)) = schema.as_object_mut().and_then(|s| s.remove("$defs")) else {
        return;
    };
    let mut used = BTreeSet::new();
    let mut left = vec![schema.clone()];
    while let Some(mut value) = left.pop() {
        for_each_object(&mut value, &mut |object| {
            let name = object.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix("#/$defs/"));
            if let Some(name) = name
                && used.insert(name.to_owned())
            {
                left.push(definitions[name].clone());
            }
        });
    }
    definitions.retain(|name, _| used.contains(name));
    schema["$defs"] = definitions.into();
}

/// Removes Rust links from descriptions, and defaults, which written documents do not have.
fn without_rust(schema: &mut Value) {
    for_each_object(schema, &mut |object| {
        if let Some(Value::String(text)) = object.get_mut("description") {
            *text = text.replace("](crate::Summary)", "]").replace("Self::", "");
            *text = text.replace("[`", "`").replace("`]", "`");
        }
        // A property may also be called `default`.
        if ["type", "$ref", "anyOf", "oneOf"].iter().any(|k| object.get(*k).is_some_and(|v| !v.is_object())) {
            object.remove("default");
        }
    });
}

#[test]
fn published_schemas_are_those_of_the_types() {
    let update = std::env::var_os("UPDATE_SCHEMAS").is_some();
    let mut stale = Vec::new();
    let schemas = PUBLISHED.iter().map(|d| (format!("{}.schema.json", d.name), d.generate()));
    for (name, schema) in schemas.chain([("web.openapi.json".to_owned(), openapi())]) {
        let file = file(&name);
        if update {
            std::fs::write(&file, schema).unwrap();
        } else if std::fs::read_to_string(&file).ok() != Some(schema) {
            stale.push(name);
        }
    }
    assert!(stale.is_empty(), "run `UPDATE_SCHEMAS=1 cargo test -p jitlat schemas`: stale are {stale:?}");
}
