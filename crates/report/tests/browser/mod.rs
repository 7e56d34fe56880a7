#![allow(dead_code, reason = "each test uses a part")]
//! Pages in headless Chromium: every control is used, and accessibility is checked with axe-core.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Size of the window and colour scheme: the browser's arguments for both.
pub type Shown = (&'static [&'static str], &'static str);

/// A large light and a small dark window. The look of a page depends on size and scheme independently, so two corners are
/// enough.
pub const CORNERS: [Shown; 2] =
    [(&["--window-size=1400,900"], "light"), (&["--window-size=400,900", DARK], "dark")];

/// Windows in which every page is shown: the corners, and with `JITLAT_FULL` every size in both schemes.
pub fn shown() -> Vec<Shown> {
    let others: [Shown; 2] =
        [(&["--window-size=400,900"], "light"), (&["--window-size=1400,900", DARK], "dark")];
    CORNERS.into_iter().chain(others.into_iter().filter(|_| full())).collect()
}

/// True if the whole matrix is tested (`just full`), not only a sample.
pub fn full() -> bool {
    std::env::var_os("JITLAT_FULL").is_some()
}

/// Argument that makes the browser prefer dark pages.
const DARK: &str = "--blink-settings=preferredColorScheme=0";

/// Script added to the page by the test: it shows every figure, zooms, hovers, hides and saves, and writes errors, or `ok`
/// and the number of figures, into the output of `--dump-dom`.
const DRIVER: &str = include_str!("driver.js");

/// Script that collects errors from the start.
const COLLECT_ERRORS: &str = r#"<script>window.__wrong = []; addEventListener("error", (e) => __wrong.push(e.message)); addEventListener("securitypolicyviolation", (e) => __wrong.push("fetches " + e.blockedURI)); for (const k of ["error", "warn"]) { const old = console[k]; console[k] = (...a) => { __wrong.push(a.join(" ")); old(...a); }; }</script><title>"#;

pub fn browser() -> Option<&'static str> {
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    });
    if found.is_none() {
        assert!(
            std::env::var_os("JITLAT_REQUIRE_BROWSER").is_none(),
            "JITLAT_REQUIRE_BROWSER is set and no Chromium is installed"
        );
        eprintln!(
            "SKIPPED: no Chromium (package chromium) is installed; set JITLAT_REQUIRE_BROWSER=1 to make this fail"
        );
    }
    found
}

/// Runs the browser on `file`; it is killed after [`LIMIT`].
pub fn browse(program: &str, dir: &Path, arguments: &[&str], file: &Path) -> String {
    visit(program, dir, arguments, &format!("file://{}", file.display()))
}

/// Runs the browser on the page at `address`; it is killed after [`LIMIT`].
pub fn visit(program: &str, dir: &Path, arguments: &[&str], address: &str) -> String {
    let profile = dir.join("profile");
    let output = dir.join("dom.html");
    let mut child = Command::new(program)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--disable-component-update",
            "--no-first-run",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .arg(address)
        .stdout(std::fs::File::create(&output).expect("a file in the temporary directory"))
        .stderr(Stdio::null())
        .spawn()
        .expect("the browser answered --version");
    if !jitlat_waiting::within(LIMIT, || child.try_wait().expect("our child").is_some()) {
        let _ = child.kill();
        let _ = child.wait();
        panic!("the browser did not finish within {LIMIT:?}");
    }
    std::fs::read_to_string(output).expect("the browser's output")
}

/// Writes a picture of the page in `file` to the folder `JITLAT_PICTURES`, if it is given.
pub fn picture(program: &str, dir: &Path, (arguments, scheme): Shown, file: &Path, name: &str) {
    let Some(folder) = std::env::var_os("JITLAT_PICTURES") else { return };
    let width: String = arguments[0].chars().filter(|c| c.is_ascii_digit() || *c == ',').collect();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let to =
        Path::new(&folder).join(format!("{name}-{}-{scheme}.png", width.split(',').next().unwrap_or("")));
    let tall = width.replace(",900", ",2400");
    let to = format!("--screenshot={}", to.display());
    let size = format!("--window-size={tall}");
    browse(program, dir, &[&[&*to, "--hide-scrollbars"], arguments, &[&*size]].concat(), file);
}

/// Creates a folder below `target` for one browser's files, so that browsers of other tests and of concurrent runs do not
/// share it.
pub fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory under target")
}

pub fn driven(name: &str, html: &str) {
    let Some(program) = browser() else { return };
    let folder = folder();
    let dir = folder.path();
    let file = dir.join("report.html");
    let driver = format!("<script>{DRIVER}</script></body>");
    let watched = html.replacen("<title>", COLLECT_ERRORS, 1).replacen("</body>", &driver, 1);
    std::fs::write(&file, watched).expect("a file under target");
    let figures = html.matches("<figure id=\"").count();
    for (arguments, scheme) in shown() {
        let dom = browse(program, dir, &[&["--dump-dom"], arguments].concat(), &file);
        assert_eq!(result(&dom, "driven"), Some(format!("ok {figures}").as_str()), "{name}, {arguments:?}");
        assert_eq!(result(&dom, "scheme"), Some(scheme), "{arguments:?}");
    }
}

/// Number of printed pages before the figures, and in all; `None` without a browser.
pub fn printed(html: &str) -> Option<(usize, usize)> {
    let program = browser()?;
    let folder = folder();
    let dir = folder.path();
    let (file, printed) = (dir.join("report.html"), dir.join("report.pdf"));
    let pages = |html: &str| {
        std::fs::write(&file, html).expect("a file under target");
        let to = format!("--print-to-pdf={}", printed.display());
        browse(program, dir, &["--no-pdf-header-footer", &to], &file);
        let pdf = std::fs::read(&printed).expect("the browser prints");
        String::from_utf8_lossy(&pdf).matches("/Type /Page\n").count()
    };
    let (first, _) = html.split_once("<section class=\"plots\">").expect("figures follow");
    Some((pages(&format!("{first}</main></body></html>")), pages(html)))
}

/// Returns the attribute `data-`NAME that a script wrote into the page.
pub fn result<'a>(dom: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = dom.split_once(&format!("data-{name}=\""))?;
    Some(rest.split_once('"')?.0)
}

/// Timeout of a browser: on two busy processors axe-core has taken more than a minute for a page.
const LIMIT: Duration = Duration::from_secs(180);

/// Path of axe-core's script, as installed by `packaging/tools axe-core`, from the root of the sources.
const AXE: &str = "target/tools/axe/axe_playwright_python/axe.min.js";

/// Variables with which a missing axe-core is an error. The gate does not fetch it; the part `browsers` of `.ci/full` does.
const REQUIRED: [&str; 2] = ["JITLAT_REQUIRE_PEERS", "JITLAT_REQUIRE_AXE"];

/// Returns the script of axe-core; `None` if it is not installed and not required.
pub fn axe() -> Option<String> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(AXE);
    match std::fs::read_to_string(&file) {
        Ok(script) => Some(script),
        Err(e) if !REQUIRED.iter().any(|name| std::env::var_os(name).is_some()) => {
            eprintln!("SKIPPED: {AXE}: {e}; packaging/tools axe-core installs it");
            None
        }
        Err(e) => panic!("{AXE}: {e}; packaging/tools axe-core installs it"),
    }
}

/// Script that runs axe-core on every tab, with everything unfolded, and writes the results into the page.
pub const ASK_AXE: &str = include_str!("accessibility.js");

/// Returns the results of axe-core for a page: `ok`, or its rules with the elements that break them.
pub fn accessibility(html: &str, axe: &str, arguments: &[&str]) -> Option<String> {
    let program = browser()?;
    let folder = folder();
    let dir = folder.path();
    let file = dir.join("report.html");
    let scripts = format!("<script>{axe}</script><script>{ASK_AXE}</script></body>");
    let (before, after) = html.rsplit_once("</body>").expect("a page");
    std::fs::write(&file, format!("{before}{scripts}{after}")).expect("a file under target");
    // Its timers run in virtual time; it waits for nothing outside the page.
    let time = ["--dump-dom", "--virtual-time-budget=120000"];
    let dom = browse(program, dir, &[&time, arguments].concat(), &file);
    Some(result(&dom, "axe").expect("axe-core has finished").to_owned())
}
