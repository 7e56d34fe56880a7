//! `jitlat serve` for a test, at ports chosen by the system.

use crate::listening;
use std::process::{Child, Command, Stdio};

/// Servers that end with the test.
pub struct Server {
    child: Child,
    listening: Vec<String>,
}

impl Server {
    /// Starts the servers `only` at `ip`, with ports chosen by the system except for `jitlat`, and waits until they
    /// listen.
    pub fn start(ip: &str, only: &str, arguments: &[&str]) -> Server {
        Server::start_program(env!("CARGO_BIN_EXE_jitlat"), ip, only, arguments)
    }

    /// Does the same with another program, such as that of an earlier version.
    pub fn start_program(program: &str, ip: &str, only: &str, arguments: &[&str]) -> Server {
        let mut command = Command::new(program);
        command.args(["serve", "--bind", ip, "--only", only]).args(arguments);
        for protocol in only.split(',').filter(|protocol| *protocol != "jitlat") {
            command.args([&format!("--{protocol}-port"), "0"]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let services =
            only.split(',').count() + arguments.iter().filter(|option| **option == "--rpm").count();
        let listening = listening::wait_until_listening(&mut child, services);
        Server { child, listening }
    }

    /// Port of the protocol at index `k` of the list.
    pub fn port(&self, k: usize) -> &str {
        // The line may end with the test port.
        let line = self.listening[k].split(", test port").next().unwrap();
        line.rsplit(':').next().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
