//! Texts that are not what they look like: characters that nobody sees, and names that look
//! like others.

use std::fmt::Write as _;

/// Whether people do not see a character, or it turns the direction of others: controls but tab
/// and line feed, soft hyphen, zero width, direction, invisible operators, tags. The console's
/// page has the same in `dom.js`.
pub fn is_hidden(character: char) -> bool {
    matches!(character,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}'
        | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}')
}

/// The text with each hidden character as a mark: `<U+200B>`.
pub fn marked(text: &str) -> String {
    let mut marked = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) {
            _ = write!(marked, "<U+{:04X}>", u32::from(character));
        } else {
            marked.push(character);
        }
    }
    marked
}

/// What a name looks like: two names with the same look are taken for each other. Case and
/// what stands between words does not count; letters of other scripts, and digits, count as
/// the letters that they resemble.
pub fn look_of(name: &str) -> String {
    let plain: String =
        name.chars().filter(|it| !is_hidden(*it)).filter_map(look_of_letter).collect();
    plain.replace("rn", "m").replace("vv", "w")
}

fn look_of_letter(letter: char) -> Option<char> {
    Some(match letter {
        '0' | 'О' | 'о' | 'Ο' | 'ο' | 'օ' => 'o',
        '1' | 'I' | 'i' | 'l' | 'L' | '|' | 'ı' | 'І' | 'і' | 'Ι' | 'ι' | 'Ӏ' | 'ӏ' => 'l',
        '5' | 'Ѕ' | 'ѕ' => 's',
        'А' | 'а' | 'Α' | 'α' => 'a',
        'В' | 'Β' | 'в' => 'b',
        'С' | 'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'Е' | 'е' | 'Ε' | 'ε' | 'ё' => 'e',
        'ɡ' | 'ց' => 'g',
        'Н' | 'Η' | 'һ' => 'h',
        'Ј' | 'ј' => 'j',
        'К' | 'к' | 'Κ' | 'κ' => 'k',
        'М' | 'м' | 'Μ' => 'm',
        'Ν' | 'ո' => 'n',
        'Р' | 'р' | 'Ρ' | 'ρ' => 'p',
        'Т' | 'т' | 'Τ' | 'τ' => 't',
        'ս' | 'υ' => 'u',
        'ν' | 'ѵ' => 'v',
        'ԝ' | 'ѡ' => 'w',
        'Х' | 'х' | 'Χ' | 'χ' => 'x',
        'У' | 'у' | 'Υ' | 'γ' => 'y',
        'Ζ' => 'z',
        // Wide letters of East Asian keyboards.
        '\u{ff21}'..='\u{ff5a}' => {
            let narrow = char::from_u32(u32::from(letter) - 0xfee0)?;
            return look_of_letter(narrow);
        }
        _ if letter.is_alphanumeric() => letter.to_lowercase().next()?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_marks_and_lines_stay() {
        // C-16
        assert_eq!(
            marked("a\u{200b}b\u{202e}c\n\td\u{e0041}"),
            "a<U+200B>b<U+202E>c\n\td<U+E0041>"
        );
        assert_eq!(marked("plain ü 漢"), "plain ü 漢");
    }

    #[test]
    fn names_that_are_taken_for_each_other_look_the_same() {
        for (one, other) in [
            ("github", "gіthub"),
            ("github", "GitHub"),
            ("read_file", "readFiIe"),
            ("google", "g00gle"),
            ("modern", "modem"),
            ("git-hub", "git\u{200b}hub"),
            ("search", "ｓearch"),
        ] {
            assert_eq!(look_of(one), look_of(other), "{one} {other}");
        }
        assert_ne!(look_of("github"), look_of("gitlab"));
    }
}
