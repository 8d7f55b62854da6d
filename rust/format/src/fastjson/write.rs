//! Writes strings as fastjson does.

/// Appends `text` as fastjson writes a string: in double quotes, with its set of escapes.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    if is_plain(bytes) {
        out.extend_from_slice(bytes);
        out.push(b'"');
        return;
    }
    let mut plain_from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= b' ' && !matches!(byte, b'"' | b'\\' | 0x7F | 0xC2 | 0xE2) {
            continue;
        }
        if let Some((escape, width)) = escape_at(&text[plain_from..], at - plain_from) {
            out.extend_from_slice(&bytes[plain_from..at]);
            out.extend_from_slice(escape.as_bytes());
            plain_from = at + width;
        }
    }
    out.extend_from_slice(&bytes[plain_from..]);
    out.push(b'"');
}

/// Whether all bytes are printable ASCII without quote and backslash, so that none needs an escape.
fn is_plain(bytes: &[u8]) -> bool {
    let (words, tail) = bytes.as_chunks::<8>();
    let plain_byte = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    words.iter().all(|word| is_plain_word(*word)) && tail.iter().all(plain_byte)
}

/// Does `is_plain` for eight bytes at once. Each term sets the high bit of a byte that is not
/// plain, and no bits if all are plain.
fn is_plain_word(bytes: [u8; 8]) -> bool {
    const fn all(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    let word = u64::from_ne_bytes(bytes);
    let below = |word: u64, limit: u8| word.wrapping_sub(all(limit)) & !word;
    let is = |byte: u8| below(word ^ all(byte), 1);
    let odd = word | below(word, b' ') | is(b'"') | is(b'\\') | is(0x7F);
    odd & all(0x80) == 0
}

/// Returns the escape of the character at `at`, and the character's length in bytes.
fn escape_at(text: &str, at: usize) -> Option<(String, usize)> {
    let character = text.get(at..)?.chars().next()?;
    let short = match character {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => "",
        _ => return None,
    };
    let escape = match short {
        "" => format!("\\u{:04X}", u32::from(character)),
        short => short.to_owned(),
    };
    Some((escape, character.len_utf8()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_plain_if_each_of_its_bytes_is() {
        for byte in 0..=u8::MAX {
            let expected = (b' '..0x7F).contains(&byte) && byte != b'"' && byte != b'\\';
            for at in 0..8 {
                for around in *b" !#[]~" {
                    let mut word = [around; 8];
                    word[at] = byte;
                    assert_eq!(is_plain_word(word), expected, "{word:?}");
                    assert_eq!(is_plain(&word[..=at]), expected, "{word:?}");
                }
            }
        }
    }

    #[test]
    fn strings_are_escaped_as_fastjson_does() {
        let mut out = Vec::new();
        write_string("a\"\\\n\u{1}\u{b}\u{7f}\u{85}\u{2028}é/中", &mut out);
        let expected = r#""a\"\\\n\u0001\u000B\u007F\u0085\u2028é/中""#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
