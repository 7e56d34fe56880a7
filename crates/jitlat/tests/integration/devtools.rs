//! Headless Chromium that a test controls by the DevTools protocol: keys are pressed as a person presses them.

use crate::browser;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tungstenite::{Message, WebSocket};

/// Time for the browser to carry out a command.
const LIMIT: Duration = Duration::from_secs(120);

/// A page in a browser, which ends with this value.
pub struct DevTools {
    child: Child,
    socket: WebSocket<TcpStream>,
    page: String,
    requests: u64,
    _folder: TempDir,
}

impl DevTools {
    /// Starts a browser with an empty page; `None` without a browser. The window has the given width.
    pub fn start(width: u32) -> Option<DevTools> {
        let program = browser::browser()?;
        let folder = browser::folder();
        let mut child = Command::new(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--disable-extensions", "--disable-component-update", "--remote-debugging-port=0"])
            .arg(format!("--window-size={width},900"))
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the browser answered --version");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let said = lines.find_map(|line| Some(line.split_once("DevTools listening on ")?.1.to_owned()));
        // Later lines are discarded, so that the browser never blocks.
        std::thread::spawn(move || lines.for_each(drop));
        let address = said.expect("the browser says where it listens");
        let host = address.trim_start_matches("ws://").split('/').next().unwrap();
        let stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let (socket, _) = tungstenite::client::client(address.as_str(), stream).unwrap();
        let mut tools = DevTools { child, socket, page: String::new(), requests: 0, _folder: folder };
        let target = tools.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached =
            tools.call("Target.attachToTarget", &json!({ "targetId": target["targetId"], "flatten": true }));
        attached["sessionId"].as_str().unwrap().clone_into(&mut tools.page);
        Some(tools)
    }

    /// Sends a command, and returns its result.
    pub fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.answer(method, parameters).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Sends a command, and returns its result, or the browser's error.
    fn answer(&mut self, method: &str, parameters: &Value) -> Result<Value, Value> {
        self.requests += 1;
        let id = self.requests;
        let mut request = json!({ "id": id, "method": method, "params": parameters });
        if !self.page.is_empty() {
            request["sessionId"] = json!(self.page);
        }
        self.socket.send(Message::text(request.to_string())).unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else { continue };
            let answer: Value = serde_json::from_str(&text).unwrap();
            if answer["id"] == id {
                return match answer.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(answer["result"].clone()),
                };
            }
        }
    }

    /// Opens the page at `address`.
    pub fn open(&mut self, address: &str) {
        self.call("Page.navigate", &json!({ "url": address }));
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// Returns the value of `script` in the page; null while the page changes.
    pub fn value(&mut self, script: &str) -> Value {
        let parameters = json!({ "expression": script, "returnByValue": true });
        match self.answer("Runtime.evaluate", &parameters) {
            Ok(result) => result["result"]["value"].clone(),
            // The page was left between the request and its evaluation: "Inspected target navigated or closed", "Execution context
            // was destroyed", "Cannot find default execution context".
            Err(error) if error["code"] == -32000 => Value::Null,
            Err(error) => panic!("{script}: {error}"),
        }
    }

    /// Waits until `script` is true in the page.
    pub fn until(&mut self, script: &str) {
        jitlat_waiting::until(script, LIMIT, || self.value(script) == json!(true));
    }

    /// Presses a key: `Tab`, `Enter` or `Space`.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            _ => (32, " "),
        };
        let name = if key == "Space" { " " } else { key };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": name, "code": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Presses Tab until the element with the name `id` has the focus.
    pub fn tab_to(&mut self, id: &str) {
        for _ in 0..20 {
            if self.value("document.activeElement.id") == json!(id) {
                return;
            }
            self.press("Tab");
        }
        panic!("Tab does not reach {id}");
    }

    /// Returns a picture of the page, as PNG in base64.
    pub fn picture(&mut self) -> String {
        let taken =
            self.call("Page.captureScreenshot", &json!({ "format": "png", "captureBeyondViewport": true }));
        taken["data"].as_str().unwrap().to_owned()
    }
}

impl Drop for DevTools {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
