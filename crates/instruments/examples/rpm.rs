//! Measures responsiveness under load: `cargo run --example rpm --features rpm -- HOST:PORT`.

use jitlat_instruments::Stop;
use jitlat_instruments::rpm::method::{LoadDirections, RpmParameters};
use jitlat_instruments::rpm::{Rpm, RpmResult, Trust};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let server = std::env::args().nth(1).ok_or("name a server of responsiveness tests")?;
    let result = measure(&server, RpmParameters::default(), Trust::System)?;
    for stage in &result.measured.stages {
        println!("{}: {:?} round trips per minute", stage.load.name(), stage.rpm());
    }
    Ok(())
}

/// Measures during downloads, then during uploads.
pub fn measure(server: &str, parameters: RpmParameters, trust: Trust) -> Result<RpmResult, Box<dyn Error>> {
    let stages = vec![LoadDirections::Down, LoadDirections::Up];
    let test = Rpm { server: server.to_owned(), stages, parameters, trust, family: None };
    Ok(test.run(&Stop::new(), &mut |_| {})?)
}
