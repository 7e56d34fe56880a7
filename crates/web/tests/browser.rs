//! The pages in headless Chromium: large and small, light and dark, with their own policy and scripts, and for everybody.

#[path = "../../report/tests/browser/mod.rs"]
mod browser;
#[path = "../examples/mesh.rs"]
mod mesh;
mod served;

use served::Served;
use std::time::{SystemTime, UNIX_EPOCH};

/// A mesh of five hosts, and the addresses of a page of each kind.
fn served(folder: &std::path::Path) -> (Served, Vec<String>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    let archive = mesh::mesh(folder, now, 12).unwrap();
    let test = archive.newest().unwrap()[0].test;
    let pages = [
        "/",
        "/path/10.0.0.3/10.0.0.4",
        "/path/10.0.0.3/10.0.0.4?show=jitter&from=30d",
        "/nowhere",
        "/hosts",
        "/compare",
        "/compare?src=10.0.0.3&dst=10.0.0.4&from=1d&to=9h&from2=9h",
        "/alerts",
    ];
    let pages = pages.into_iter().map(str::to_owned).chain([format!("/test/{test}")]);
    (Served::start(folder, |_| ()), pages.collect())
}

/// A page with its style sheet within it and without scripts, so that it is the same as a file.
fn alone(served: &Served, path: &str) -> String {
    let page = served.get(path).body;
    let style = served.get("/style.css").body;
    let (before, rest) = page.split_once("<link rel=\"stylesheet\"").expect("every page has its style");
    let (_, rest) = rest.split_once('>').unwrap();
    let mut page = format!("{before}<style>{style}</style>{rest}");
    while let Some(start) = page.find("<script src=") {
        let end = start + page[start..].find("</script>").unwrap() + "</script>".len();
        page.replace_range(start..end, "");
    }
    page
}

#[test]
fn nobody_is_kept_from_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let (served, pages) = served(folder.path());
    let Some(axe) = browser::axe() else { return };
    for path in &pages {
        let page = alone(&served, path);
        for arguments in [browser::SHOWN[0].0, browser::SHOWN[3].0] {
            let found = browser::accessibility(&page, &axe, arguments);
            assert_eq!(found.as_deref(), Some("ok"), "{path}, {arguments:?}");
        }
    }
}

#[test]
fn scripts_and_styles_are_those_of_the_policy_and_no_page_is_wider_than_a_phone() {
    let Some(program) = browser::browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (served, pages) = served(folder.path());
    let own = browser::folder();
    let url = |path: &str| format!("http://{}{path}", served.address);
    // Its own scripts run, and wait for new tests.
    let dom = browser::visit(program, own.path(), &["--dump-dom"], &url("/"));
    assert!(
        dom.contains("role=\"status\">connecting<") || dom.contains("role=\"status\">live<"),
        "the script does not run"
    );
    let test = pages.last().unwrap();
    let dom = browser::visit(program, own.path(), &["--dump-dom"], &url(test));
    assert!(
        dom.contains("class=\"plot\"") || dom.contains("class=\"view"),
        "the figures are not drawn by the script"
    );
    // What is too wide scrolls within itself.
    const WIDTH: &str = "<script>document.documentElement.dataset.wide = \
                         document.documentElement.scrollWidth > document.documentElement.clientWidth + 1;</script></body>";
    for path in &pages {
        let file = own.path().join("page.html");
        std::fs::write(&file, alone(&served, path).replacen("</body>", WIDTH, 1)).unwrap();
        for (arguments, _) in browser::SHOWN {
            let dom = browser::browse(program, own.path(), &[&["--dump-dom"], arguments].concat(), &file);
            assert_eq!(browser::result(&dom, "wide"), Some("false"), "{path}, {arguments:?}");
        }
    }
}
