//! Scripts for shells.

use std::process::{Command, Stdio};

use crate::process::run;

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run(&["completion", shell], &[]);
        assert_eq!((script.code, script.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["switchboard", "bridge", "tools", "doctor", "pass-environment"] {
            assert!(script.stdout.contains(word), "{shell} lacks {word}");
        }
    }
    assert_eq!(run(&["completion", "cmd.exe"], &[]).code, Some(2));
}

/// Asks bash itself what it would offer, as on a press of Tab.
#[test]
fn bash_completes_commands_and_options() {
    let has_bash = Command::new("bash").arg("-c").arg("true").stdin(Stdio::null()).status();
    if !has_bash.is_ok_and(|status| status.success()) {
        return;
    }
    let offered = |words: &str| {
        let count = words.split(' ').count();
        let last = words.rsplit(' ').next().unwrap();
        let before = words.split(' ').rev().nth(1).unwrap();
        let ask = format!(
            "source <(\"$SB\" completion bash); COMP_WORDS=({words}{}); COMP_CWORD={}; \
             _switchboard switchboard '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            if last.is_empty() { "''" } else { "" },
            count - 1,
        );
        let output = Command::new("bash")
            .args(["--norc", "-c", &ask])
            .env("SB", env!("CARGO_BIN_EXE_switchboard"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(offered("switchboard to"), "tools");
    assert_eq!(offered("switchboard doc"), "doctor");
    assert_eq!(offered("switchboard tools --conf"), "--config");
    assert_eq!(offered("switchboard tools --output "), "text\njson");
}
