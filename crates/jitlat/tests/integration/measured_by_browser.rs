//! `jitlat serve --web`: a browser measures, operated by keyboard, and the result is in the archive.

use crate::devtools::DevTools;
use crate::{listening, network};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server with the page, which ends with this value.
struct PageServer {
    child: Child,
    address: String,
}

impl PageServer {
    fn start(folder: &Path, options: &[&str]) -> PageServer {
        let ip = network::own_address().to_string();
        let mut child = Command::new(env!("CARGO_BIN_EXE_jitlat"))
            .args([
                "serve",
                "--bind",
                &ip,
                "--only",
                "stamp",
                "--stamp-port",
                "0",
                "--web",
                "--web-port",
                "0",
            ])
            .args(options)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = listening::wait_until_listening(&mut child, 2);
        let page = lines.iter().find(|line| line.contains("answering browsers")).unwrap();
        let address = page.rsplit(' ').next().unwrap().to_owned();
        PageServer { child, address }
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Checks the page with axe-core, if it is installed.
fn nobody_is_kept_from_it(tools: &mut DevTools, state: &str) {
    let Some(axe) = crate::browser::axe() else { return };
    tools.value(&axe);
    tools.value(crate::browser::ASK_AXE);
    tools.until("!!document.documentElement.dataset.axe");
    let found = tools.value("document.documentElement.dataset.axe");
    assert_eq!(found.as_str(), Some("ok"), "{state}");
    tools.value("delete document.documentElement.dataset.axe");
}

/// Writes a picture of the page to the folder `JITLAT_PICTURES`, if it is given.
fn picture(tools: &mut DevTools, name: &str) {
    use base64::Engine;
    if let Some(folder) = std::env::var_os("JITLAT_PICTURES") {
        let bytes = base64::engine::general_purpose::STANDARD.decode(tools.picture()).unwrap();
        std::fs::write(Path::new(&folder).join(name), bytes).unwrap();
    }
}

#[test]
fn a_measurement_by_keyboard_is_reported_and_archived() {
    let folder = tempfile::tempdir().unwrap();
    let server = PageServer::start(folder.path(), &["--web-archive", "archive"]);
    let Some(mut tools) = DevTools::start(1000) else { return };
    tools.open(&format!("http://{}/", server.address));
    picture(&mut tools, "begin.png");
    nobody_is_kept_from_it(&mut tools, "at the beginning");
    tools.tab_to("start");
    tools.press("Enter");
    // Starting moves the focus to the button that stops.
    tools.until("document.activeElement.id === 'stop'");
    tools.until("parseInt(document.getElementById('answers').textContent) > 30");
    picture(&mut tools, "running.png");
    assert!(
        tools.value("document.getElementById('clock').textContent").as_str().unwrap().contains("steps of")
    );
    tools.press("Enter");
    tools.until("location.pathname.startsWith('/report/') && document.readyState === 'complete'");
    picture(&mut tools, "report.png");
    let text = tools.value("document.body.innerText");
    let text = text.as_str().unwrap();
    let text = text.to_owned();
    nobody_is_kept_from_it(&mut tools, "the report");
    for said in ["round trip", "TCP", "browser"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.contains("--web-archive"), "visitors do not learn the server's command line");
    drop(tools);

    let listed = Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .args(["archive", "ls", "archive", "--json"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let tests: Value = serde_json::from_str(&listed).unwrap_or_else(|e| panic!("{e}: {listed}"));
    let host = server.address.split(':').next().unwrap();
    let shown = tests.to_string();
    assert!(shown.contains("websocket") && shown.contains(host), "{shown}");
}
