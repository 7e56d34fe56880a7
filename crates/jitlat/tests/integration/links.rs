//! Links between the pages of the repository are valid: file and heading exist. No network is used.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Pages in docs/ for developers, which are not part of the site.
const FOR_DEVELOPERS: [&str; 3] = ["docs/benchmarks.md", "docs/seeds.md", "docs/testing.md"];

/// Links of a page, and anchors of its headings.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn read(text: &str) -> Page {
        let mut page = Page::default();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::End(TagEnd::Heading(_)) => page.add_anchor(&heading.take().unwrap_or_default()),
                _ => {}
            }
        }
        page
    }

    /// Adds an anchor like GitHub and mdBook: lower case, hyphens for spaces, no punctuation, with a number if the
    /// name exists already.
    fn add_anchor(&mut self, heading: &str) {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let numbered = (1..).map(|n| format!("{anchor}-{n}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|a| !self.anchors.contains(a));
        self.anchors.extend(free);
    }
}

/// The pages of the repository, by path from its root.
fn pages() -> BTreeMap<PathBuf, Page> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if entry.file_type().unwrap().is_dir() {
                // Skips folders that programs write to.
                if !hidden
                    && !["target", "corpus", "artifacts", "node_modules"].iter().any(|f| path.ends_with(f))
                {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "md") {
                let page = Page::read(&fs::read_to_string(root().join(&path)).unwrap());
                pages.insert(path, page);
            }
        }
    }
    pages
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the path that `link` refers to on a page in `folder`; `None` if it leaves the repository.
fn resolve(folder: &Path, link: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => path.pop().then_some(())?,
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// Describes the error in a link of the page at `path`; `None` if the link is valid.
fn fault(path: &Path, link: &str, pages: &BTreeMap<PathBuf, Page>) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = match file {
        "" => Some(path.to_owned()),
        file => resolve(path.parent().unwrap_or(Path::new("")), file),
    };
    let Some(target) = target else { return Some("leaves the repository") };
    if !root().join(&target).exists() {
        return Some("is not there");
    }
    if path.starts_with("docs") && !target.starts_with("docs") {
        return Some("leaves docs/, and the site with it: write the address of the repository");
    }
    let on_the_site =
        |path: &Path| path.starts_with("docs") && !FOR_DEVELOPERS.iter().any(|p| path == Path::new(p));
    if on_the_site(path) && !on_the_site(&target) {
        return Some("is for developers and not on the site: write the address of the repository");
    }
    if path.starts_with("docs") && root().join(&target).is_dir() {
        return Some("is a folder, which the site has no page for");
    }
    let known = |anchor: &str| pages.get(&target).is_none_or(|page| page.anchors.contains(anchor));
    anchor.is_some_and(|anchor| !known(anchor)).then_some("has no such heading")
}

#[test]
fn links_hold() {
    let pages = pages();
    let mut links = 0;
    let mut faults = Vec::new();
    for (path, page) in &pages {
        links += page.links.len();
        let broken = page.links.iter().filter_map(|link| Some((link, fault(path, link, &pages)?)));
        faults.extend(broken.map(|(link, fault)| format!("{}: {link} {fault}", path.display())));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(links > 100, "{links} links were found: is this test looking in the right place?");
}

#[test]
fn the_site_lists_every_page() {
    let pages = pages();
    let summary = Path::new("docs/SUMMARY.md");
    let listed: BTreeSet<_> = pages[summary].links.iter().map(|link| Path::new("docs").join(link)).collect();
    let missing: Vec<_> =
        pages.keys().filter(|p| p.starts_with("docs") && *p != summary && !listed.contains(*p)).collect();
    let for_developers = FOR_DEVELOPERS.map(Path::new);
    assert_eq!(missing, for_developers, "pages that are not in docs/SUMMARY.md, and those for developers");
}

#[test]
fn what_is_broken_is_found() {
    let pages = BTreeMap::from([
        (PathBuf::from("README.md"), Page::read("# A `b` c!\n\n[x](docs/README.md)")),
        (PathBuf::from("docs/README.md"), Page::read("# Here\n\n# Here")),
    ]);
    assert_eq!(pages[Path::new("README.md")].links, ["docs/README.md"]);
    let fault = |path: &str, link: &str| fault(Path::new(path), link, &pages);
    for sound in ["#a-b-c", "docs/README.md#here-1", "docs", "https://example.org/x"] {
        assert_eq!(fault("README.md", sound), None, "{sound}");
    }
    for broken in ["#here", "docs/none.md", "docs/README.md#here-2", "../README.md", "/README.md"] {
        assert!(fault("README.md", broken).is_some(), "{broken}");
    }
    for leaving in ["../README.md", "../docs", "metrics", "testing.md"] {
        assert!(fault("docs/README.md", leaving).is_some(), "{leaving}");
    }
}
