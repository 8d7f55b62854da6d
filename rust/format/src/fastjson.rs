//! fastjson's dialect of JSON, which RocketMQ writes into bodies, headers and config files.
//!
//! This is not JSON: keys may be bare numbers or words, single-quoted, or whole objects
//! (`{{"brokerName":"b","queueId":0}:5}`), and commas may be repeated or trail. `to_strict` turns
//! such text into strict JSON. A key that is not a string becomes one; an object key becomes the
//! string of its JSON.

mod write;

use thiserror::Error;

pub use write::write_string;

/// Largest nesting depth of arrays and objects, the same as in serde_json.
pub const MAX_DEPTH: usize = 120;
/// Largest nesting depth of object keys: each level doubles the backslashes.
const MAX_KEY_DEPTH: usize = 3;
/// Size limit in bytes, for the text read and for the strict text made from it.
pub const MAX_TEXT_BYTES: usize = 64 * 1024 * 1024;

/// Why text is not valid fastjson.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FastjsonError {
    /// Unexpected text at a position.
    #[error("{expected} expected at position {position}")]
    Syntax {
        /// The expected text.
        expected: &'static str,
        /// Bytes from the start of the text.
        position: usize,
    },
    /// Arrays, objects or object keys nest too deep.
    #[error("nested too deep at position {0}")]
    Depth(usize),
    /// The text, or the strict text made from it, is larger than `MAX_TEXT_BYTES`.
    #[error("text over {MAX_TEXT_BYTES} bytes")]
    Size,
}

/// Rewrites fastjson's text as strict JSON.
///
/// # Errors
/// `FastjsonError` if fastjson would fail too, and at the limits of this module.
pub fn to_strict(text: &str) -> Result<String, FastjsonError> {
    to_strict_within(text, MAX_TEXT_BYTES)
}

/// Like [`to_strict`] with another limit, for text from a trusted source.
///
/// # Errors
/// As [`to_strict`].
pub fn to_strict_within(text: &str, bytes_max: usize) -> Result<String, FastjsonError> {
    if text.len() > bytes_max {
        return Err(FastjsonError::Size);
    }
    let mut rewriter = Rewriter {
        text,
        bytes_max,
        position: 0,
        depth: 0,
        key_depth: 0,
    };
    let mut out = Vec::with_capacity(text.len() + text.len() / 8);
    rewriter.value(&mut out)?;
    rewriter.skip_space();
    if rewriter.position < text.len() {
        return Err(rewriter.expected("end of text"));
    }
    // The conversion never loses anything, because the rewriter copies whole characters.
    Ok(String::from_utf8(out).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into()))
}

/// Reads the text once, copies strict parts and rewrites the rest.
struct Rewriter<'a> {
    text: &'a str,
    bytes_max: usize,
    position: usize,
    depth: usize,
    key_depth: usize,
}

impl Rewriter<'_> {
    fn value(&mut self, out: &mut Vec<u8>) -> Result<(), FastjsonError> {
        if out.len() > self.bytes_max {
            return Err(FastjsonError::Size);
        }
        match self.peek() {
            Some(b'{') => self.nested(out, Self::object),
            Some(b'[') => self.nested(out, Self::array),
            Some(b'"' | b'\'') => self.string(out),
            Some(_) => self.word(out),
            None => Err(self.expected("a value")),
        }
    }

    fn nested(
        &mut self,
        out: &mut Vec<u8>,
        read: fn(&mut Self, &mut Vec<u8>) -> Result<(), FastjsonError>,
    ) -> Result<(), FastjsonError> {
        if self.depth == MAX_DEPTH {
            return Err(FastjsonError::Depth(self.position));
        }
        self.depth += 1;
        self.position += 1;
        read(self, out)?;
        self.depth -= 1;
        Ok(())
    }

    /// Reads the rest of an object, after `{`.
    fn object(&mut self, out: &mut Vec<u8>) -> Result<(), FastjsonError> {
        out.push(b'{');
        let mut separator: &[u8] = b"";
        loop {
            self.skip_commas();
            if self.take(b'}') {
                out.push(b'}');
                return Ok(());
            }
            out.extend_from_slice(separator);
            separator = b",";
            self.key(out)?;
            if !self.take(b':') {
                return Err(self.expected("':'"));
            }
            out.push(b':');
            self.value(out)?;
            self.delimiter(b'}')?;
        }
    }

    /// Reads the rest of an array, after `[`.
    fn array(&mut self, out: &mut Vec<u8>) -> Result<(), FastjsonError> {
        out.push(b'[');
        let mut separator: &[u8] = b"";
        loop {
            self.skip_commas();
            if self.take(b']') {
                out.push(b']');
                return Ok(());
            }
            out.extend_from_slice(separator);
            separator = b",";
            self.value(out)?;
            self.delimiter(b']')?;
        }
    }

    /// Reads a key of any kind and writes it as a string.
    fn key(&mut self, out: &mut Vec<u8>) -> Result<(), FastjsonError> {
        match self.peek() {
            Some(b'"' | b'\'') => self.string(out),
            Some(b'{' | b'[') => {
                if self.key_depth == MAX_KEY_DEPTH {
                    return Err(FastjsonError::Depth(self.position));
                }
                self.key_depth += 1;
                let mut object = Vec::new();
                self.value(&mut object)?;
                self.key_depth -= 1;
                write_string(&String::from_utf8_lossy(&object), out);
                Ok(())
            }
            _ => {
                let word = self.bare_word();
                if word.is_empty() {
                    return Err(self.expected("a key"));
                }
                write_string(word, out);
                Ok(())
            }
        }
    }

    /// Reads a string in single or double quotes and rewrites its escapes.
    fn string(&mut self, out: &mut Vec<u8>) -> Result<(), FastjsonError> {
        let (text, start) = (self.text, self.position);
        let bytes = text.as_bytes();
        let quote = bytes[start];
        out.push(b'"');
        let mut at = start + 1;
        loop {
            let byte = *bytes.get(at).ok_or(FastjsonError::Syntax {
                expected: "the end of a string that starts",
                position: start,
            })?;
            match byte {
                _ if byte == quote => break,
                b'\\' => at += self.escape(at, out)?,
                b'"' => out.extend_from_slice(b"\\\""),
                0..b' ' => out.extend_from_slice(format!("\\u{byte:04X}").as_bytes()),
                _ => out.push(byte),
            }
            at += 1;
        }
        out.push(b'"');
        self.position = at + 1;
        Ok(())
    }

    /// Copies the escape at `at`; returns the number of bytes after the backslash.
    fn escape(&self, at: usize, out: &mut Vec<u8>) -> Result<usize, FastjsonError> {
        let bad = FastjsonError::Syntax {
            expected: "an escape",
            position: at,
        };
        let rest = &self.text.as_bytes()[at + 1..];
        let hex = |from: usize, to: usize| {
            let digits = std::str::from_utf8(rest.get(from..to)?).ok()?;
            u32::from_str_radix(digits, 16).ok()
        };
        let (unit, used) = match rest.first() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                out.extend_from_slice(&[b'\\', rest[0]]);
                return Ok(1);
            }
            Some(b'\'') => (u32::from(b'\''), 1),
            Some(b'v') => (0x0B, 1),
            Some(b'0'..=b'7') => (u32::from(rest[0] - b'0'), 1),
            Some(b'x') => (hex(1, 3).ok_or(bad)?, 3),
            Some(b'u') => (hex(1, 5).ok_or(bad)?, 5),
            _ => return Err(bad),
        };
        let pair = match unit {
            0xD800..0xDC00 if rest.get(used..used + 2) == Some(b"\\u") => {
                hex(used + 2, used + 6).filter(|low| (0xDC00..0xE000).contains(low))
            }
            _ => None,
        };
        if let Some(low) = pair {
            out.extend_from_slice(format!("\\u{unit:04X}\\u{low:04X}").as_bytes());
            return Ok(used + 6);
        }
        // Half a surrogate pair is not a character. Java keeps it, but a strict reader would fail.
        let unit = if (0xD800..0xE000).contains(&unit) {
            0xFFFD
        } else {
            unit
        };
        out.extend_from_slice(format!("\\u{unit:04X}").as_bytes());
        Ok(used)
    }

    /// Reads a number or a bare word.
    fn word(&mut self, out: &mut Vec<u8>) -> Result<(), FastjsonError> {
        let position = self.position;
        let word = self.bare_word();
        match word {
            "true" | "false" | "null" => out.extend_from_slice(word.as_bytes()),
            "NaN" | "undefined" => out.extend_from_slice(b"null"),
            _ => {
                let number = word.trim_end_matches(['L', 'S', 'B', 'F', 'D']);
                let number = number.strip_prefix('+').unwrap_or(number);
                if serde_json::from_str::<serde_json::Number>(number).is_err() {
                    return Err(FastjsonError::Syntax {
                        expected: "a value",
                        position,
                    });
                }
                out.extend_from_slice(number.as_bytes());
            }
        }
        Ok(())
    }

    /// Returns the text up to the next delimiter.
    fn bare_word(&mut self) -> &str {
        self.skip_space();
        let rest = &self.text[self.position..];
        let is_end = |c: char| c.is_ascii_whitespace() || "{}[]:,\"'".contains(c);
        let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
        self.position += word.len();
        word
    }

    /// Reads the comma or closing bracket after a member; the bracket is left for the caller.
    fn delimiter(&mut self, close: u8) -> Result<(), FastjsonError> {
        match self.peek() {
            Some(b',') => Ok(()),
            Some(byte) if byte == close => Ok(()),
            _ => Err(self.expected("',' or a closing bracket")),
        }
    }

    fn skip_commas(&mut self) {
        while self.take(b',') {}
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.text.as_bytes().get(self.position).copied()
    }

    fn skip_space(&mut self) {
        let rest = &self.text.as_bytes()[self.position..];
        self.position += rest
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
    }

    fn expected(&self, expected: &'static str) -> FastjsonError {
        FastjsonError::Syntax {
            expected,
            position: self.position,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict(text: &str) -> String {
        to_strict(text).unwrap()
    }

    #[test]
    fn keys_of_any_kind_become_strings() {
        assert_eq!(strict("{0:5,-1 : 7}"), r#"{"0":5,"-1":7}"#);
        assert_eq!(strict("{'a':\"b\",c:'d\"e'}"), r#"{"a":"b","c":"d\"e"}"#);
        let queue_map = r#"{"t":{{"brokerName":"b","queueId":0}:{x:1}}}"#;
        let expected = r#"{"t":{"{\"brokerName\":\"b\",\"queueId\":0}":{"x":1}}}"#;
        assert_eq!(strict(queue_map), expected);
    }

    #[test]
    fn stray_commas_words_and_suffixes_are_accepted() {
        assert_eq!(strict("[,1,,2L,]"), "[1,2]");
        assert_eq!(strict(" { \"a\" : NaN ,\n} "), r#"{"a":null}"#);
        assert_eq!(strict(r#"["\x41\v\uD83D\uDE00\uD83Dx\'"]"#), {
            r#"["\u0041\u000B\uD83D\uDE00\uFFFDx\u0027"]"#
        });
    }

    #[test]
    fn bad_text_is_refused_with_a_position() {
        let syntax = |expected, position| Err(FastjsonError::Syntax { expected, position });
        assert_eq!(to_strict("{a 1}"), syntax("':'", 3));
        assert_eq!(to_strict("[1"), syntax("',' or a closing bracket", 2));
        assert_eq!(
            to_strict("[\"a"),
            syntax("the end of a string that starts", 1)
        );
        assert_eq!(to_strict("{} x"), syntax("end of text", 3));
        assert_eq!(to_strict("[huh]"), syntax("a value", 1));
        assert_eq!(to_strict(""), syntax("a value", 0));
    }

    #[test]
    fn nesting_is_limited() {
        let deep = "[".repeat(MAX_DEPTH + 1);
        assert_eq!(to_strict(&deep), Err(FastjsonError::Depth(MAX_DEPTH)));
        assert!(matches!(
            to_strict(&"{".repeat(9)),
            Err(FastjsonError::Depth(_))
        ));
    }
}
