//! The fast reader of JSON headers. `None` everywhere means "not for me": the slow reader decides.

use std::borrow::Cow;

use super::super::{ExtFields, Frame, Language};

/// Reads a header of the usual shape, borrowing every text without escapes.
pub(super) fn decode(text: &str) -> Option<Frame<'_>> {
    let mut scanner = Scanner::new(text);
    let mut frame = Frame::blank(ExtFields::absent());
    scanner.object(|scanner, key| {
        match key.as_ref() {
            "code" => frame.code = scanner.integer()?,
            "flag" => frame.flag = scanner.integer()?,
            "language" => frame.language = Language::from_name(&scanner.string()?),
            "opaque" => frame.opaque = scanner.integer()?,
            "version" => frame.version = scanner.integer()?,
            "remark" => frame.remark = Some(scanner.string()?),
            "extFields" => {
                let mut ext = ExtFields::empty(false);
                scanner.object(|scanner, name| {
                    ext.push(name, scanner.string()?);
                    Some(())
                })?;
                frame.ext = ext;
            }
            "serializeTypeCurrentRPC" => drop(scanner.string()?),
            _ => return None,
        }
        Some(())
    })?;
    scanner.end()?;
    Some(frame)
}

/// A position in JSON text, and readers of the few values headers have.
pub(in super::super) struct Scanner<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Scanner<'a> {
    pub(in super::super) fn new(text: &'a str) -> Self {
        Self { text, position: 0 }
    }

    /// Bytes read so far.
    pub(in super::super) fn position(&self) -> usize {
        self.position
    }

    /// Reads an object; `member` gets each key and must read its value.
    pub(in super::super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            self.position += 1;
            return Some(());
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            member(self, key)?;
            match self.next()? {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Reads a string in double quotes.
    pub(in super::super) fn string(&mut self) -> Option<Cow<'a, str>> {
        self.expect(b'"')?;
        let start = self.position;
        let rest = &self.text.as_bytes()[start..];
        let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        self.position = start + length;
        if rest[length] == b'"' {
            self.position += 1;
            return Some(Cow::Borrowed(&self.text[start..start + length]));
        }
        self.escaped_string(start).map(Cow::Owned)
    }

    /// Goes on with a string whose first escape is here.
    fn escaped_string(&mut self, start: usize) -> Option<String> {
        let mut out = String::with_capacity(self.position - start + 64);
        let mut plain_from = start;
        loop {
            match *self.text.as_bytes().get(self.position)? {
                b'"' => {
                    out.push_str(&self.text[plain_from..self.position]);
                    self.position += 1;
                    return Some(out);
                }
                b'\\' => {
                    out.push_str(&self.text[plain_from..self.position]);
                    self.position += 1;
                    out.push(self.escape()?);
                    plain_from = self.position;
                }
                _ => self.position += 1,
            }
        }
    }

    /// Reads what follows a backslash. Surrogate pairs are rare enough for the slow reader.
    fn escape(&mut self) -> Option<char> {
        let kind = *self.text.as_bytes().get(self.position)?;
        self.position += 1;
        Some(match kind {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'"' | b'\\' | b'/' => char::from(kind),
            b'u' => {
                let digits = self.text.get(self.position..self.position + 4)?;
                self.position += 4;
                char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
            }
            _ => return None,
        })
    }

    /// Reads an `i32`.
    pub(in super::super) fn integer(&mut self) -> Option<i32> {
        self.peek()?;
        let rest = &self.text.as_bytes()[self.position..];
        let sign = usize::from(rest.first() == Some(&b'-'));
        let digits = rest[sign..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let text = &self.text[self.position..self.position + sign + digits];
        self.position += sign + digits;
        text.parse().ok() // what follows a fraction or an exponent fails at the next delimiter
    }

    /// Demands that only white space is left.
    pub(in super::super) fn end(&mut self) -> Option<()> {
        self.skip_space();
        (self.position == self.text.len()).then_some(())
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.position += 1;
        Some(byte)
    }

    /// The next byte that is not white space; the position moves up to it.
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
}
