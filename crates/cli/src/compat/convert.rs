//! Values of theirs in our terms.

/// Milliseconds as whole seconds, at least one.
pub(super) fn seconds(values: &[String]) -> Result<Vec<String>, String> {
    Ok(vec![whole_seconds(values)?.max(1).to_string()])
}

/// The same, where nothing or zero means for ever; `most` is our longest.
pub(super) fn seconds_or(most: u64, values: &[String]) -> Result<Vec<String>, String> {
    let seconds = whole_seconds(values)?;
    Ok(vec![if seconds == 0 { most } else { seconds.min(most) }.to_string()])
}

fn whole_seconds(values: &[String]) -> Result<u64, String> {
    let value = values.last().map(String::as_str).unwrap_or_default();
    let millis: f64 = value.parse().map_err(|_| "not a number of milliseconds".to_owned())?;
    if !(0.0..=1e15).contains(&millis) {
        return Err("not a number of milliseconds".to_owned());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    let millis = millis as u64;
    Ok(millis.div_ceil(1000))
}

/// Bytes of a message; zero means without a limit, and ours cannot be tiny.
pub(super) fn bytes(values: &[String]) -> Result<Vec<String>, String> {
    let value = values.last().map(String::as_str).unwrap_or_default();
    let bytes: u64 = value.parse().map_err(|_| "not a number of bytes".to_owned())?;
    let most = u64::from(u32::MAX);
    Ok(vec![if bytes == 0 { most } else { bytes.clamp(1024, most) }.to_string()])
}

/// Origins; none listed means all.
#[expect(clippy::unnecessary_wraps, reason = "it stands in the table")]
pub(super) fn origins(values: &[String]) -> Result<Vec<String>, String> {
    Ok(if values.is_empty() { vec!["*".to_owned()] } else { values.to_vec() })
}

/// Pairs of a name and a value, joined.
pub(super) fn joined(values: &[String], between: &str) -> Vec<String> {
    values.chunks(2).map(|pair| pair.join(between)).collect()
}

/// Whether only a shell can make sense of a command line.
pub(super) fn wants_shell(line: &str) -> bool {
    line.contains(['$', '`', '&', '|', ';', '<', '>', '(', ')', '*', '?', '~', '#', '\n'])
}

/// A command line as words for a shell.
pub(super) fn shell(line: &str) -> Vec<String> {
    ["sh", "-c", line].map(ToOwned::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(value: &str) -> Vec<String> {
        vec![value.to_owned()]
    }

    #[test]
    fn milliseconds_become_whole_seconds() {
        assert_eq!(seconds(&one("60000")), Ok(one("60")));
        assert_eq!(seconds(&one("1")), Ok(one("1")));
        assert_eq!(seconds(&one("1500.5")), Ok(one("2")));
        assert_eq!(seconds_or(9, &one("0")), Ok(one("9")));
        assert_eq!(seconds_or(9, &one("60000")), Ok(one("9")));
        assert!(seconds(&one("soon")).is_err() && seconds(&one("-1")).is_err());
    }

    #[test]
    fn no_limit_is_our_largest() {
        assert_eq!(bytes(&one("0")), Ok(one("4294967295")));
        assert_eq!(bytes(&one("10")), Ok(one("1024")));
        assert_eq!(bytes(&one("10485760")), Ok(one("10485760")));
        assert!(bytes(&one("10mb")).is_err());
    }

    #[test]
    fn a_shell_is_only_asked_where_words_will_not_do() {
        assert!(!wants_shell("npx -y 'some server' --flag=1 /a/b"));
        assert!(wants_shell("cd /tmp && ./server") && wants_shell("server $HOME"));
    }
}
