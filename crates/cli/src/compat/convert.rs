//! Values of theirs in our terms.

/// Milliseconds as whole seconds, at least one, and at most the longest that we wait.
pub(super) fn seconds(most: u64, values: &[String]) -> Result<Vec<String>, String> {
    let seconds = whole(values, 1000.0).ok_or("not a number of milliseconds")?;
    Ok(vec![seconds.clamp(1, most).to_string()])
}

/// The same, where zero means for ever.
pub(super) fn seconds_or(most: u64, values: &[String]) -> Result<Vec<String>, String> {
    let seconds = whole(values, 1000.0).ok_or("not a number of milliseconds")?;
    Ok(vec![if seconds == 0 { most } else { seconds.min(most) }.to_string()])
}

/// Seconds and parts of one as whole seconds; none if they make no sense.
pub(super) fn whole_seconds(values: &[String]) -> Option<u64> {
    whole(values, 1.0)
}

fn whole(values: &[String], in_a_second: f64) -> Option<u64> {
    let value: f64 = values.last()?.parse().ok()?;
    let seconds = (value / in_a_second).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    (0.0..=1e15).contains(&seconds).then_some(seconds as u64)
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
        assert_eq!(seconds(99, &one("60000")), Ok(one("60")));
        assert_eq!(seconds(99, &one("1")), Ok(one("1")));
        assert_eq!(seconds(99, &one("1500.5")), Ok(one("2")));
        assert_eq!(seconds(99, &one("150000")), Ok(one("99")));
        assert_eq!(seconds_or(9, &one("0")), Ok(one("9")));
        assert_eq!(seconds_or(9, &one("60000")), Ok(one("9")));
        assert!(seconds(99, &one("soon")).is_err() && seconds(99, &one("-1001")).is_err());
        assert_eq!(whole_seconds(&one("1.5")), Some(2));
        assert_eq!(whole_seconds(&one("NaN")), None);
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
