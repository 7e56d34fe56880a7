//! The output of `jitlat` without arguments: the commands to begin with.

use jitlat_output::terminal;

/// Commands to begin with, each with its purpose.
const COMMANDS: [(&str, &str); 5] = [
    ("jitlat demo", "see a measurement: server, client and an impaired path on this machine"),
    ("jitlat ping HOST", "measure round trips to any host; with --live on the whole screen"),
    ("jitlat serve", "on the far host: answer tests, so that jitlat HOST measures each direction"),
    ("sudo jitlat path HOST --live", "watch every router on the path"),
    ("jitlat watch HOST", "measure all the time, store the results, show them in a browser"),
];

/// Prints the commands to begin with.
///
/// # Errors
/// Standard output cannot be written.
pub fn print() -> anyhow::Result<()> {
    Ok(terminal::print(&text())?)
}

fn text() -> String {
    let width = COMMANDS.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    let mut text = "jitlat measures what a network path does to real-time traffic. To begin:\n\n".to_owned();
    for (command, purpose) in COMMANDS {
        text += &format!("  {command:width$}  {purpose}\n");
    }
    text + "\njitlat -h lists all commands, and jitlat COMMAND -h the options of one.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;

    #[test]
    fn the_first_commands_exist_and_fit_on_a_narrow_terminal() {
        for line in text().lines() {
            assert!(line.chars().count() <= 110, "{line}");
        }
        for (command, _) in COMMANDS {
            let words = command.trim_start_matches("sudo ").split(' ');
            let parsed = root::command().try_get_matches_from(words);
            assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
        }
    }
}
