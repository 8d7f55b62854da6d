//! The fast reader of JSON headers. `None` everywhere means that the slow reader decides.

use std::borrow::Cow;

use super::super::limits::check_fields;
use super::super::{ExtFields, Frame, FrameError, Language};
use super::marks::Marks;

/// Reads a header of the usual shape, and borrows every text without escapes.
///
/// # Errors
/// `FrameError::HeaderFields` at the first field over `fields_max`.
pub(super) fn decode(text: &str, fields_max: usize) -> Result<Option<Frame<'_>>, FrameError> {
    let mut too_many = Ok(());
    let frame = usual(text, |count| {
        too_many = check_fields(count, fields_max);
        too_many.is_ok().then_some(())
    });
    too_many.map(|()| frame)
}

/// `allow` is called with the number of fields so far; `None` ends the reading.
fn usual(text: &str, mut allow: impl FnMut(usize) -> Option<()>) -> Option<Frame<'_>> {
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
                    allow(ext.listed())
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

/// A position in JSON text, with readers of the few kinds of values in headers.
pub(in super::super) struct Scanner<'a> {
    text: &'a str,
    position: usize,
    marks: Marks,
}

impl<'a> Scanner<'a> {
    pub(in super::super) fn new(text: &'a str) -> Self {
        Self {
            text,
            position: 0,
            marks: Marks::default(),
        }
    }

    /// Bytes read so far.
    pub(in super::super) fn position(&self) -> usize {
        self.position
    }

    /// Reads an object; `member` is called with each key and must read its value.
    #[inline(always)]
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
    #[inline(always)] // returning the value through memory would cost more than finding its end
    pub(in super::super) fn string(&mut self) -> Option<Cow<'a, str>> {
        self.expect(b'"')?;
        let plain = self.plain_run()?;
        match self.next_is_quote() {
            true => Some(Cow::Borrowed(plain)),
            false => self.escaped(plain).map(Cow::Owned),
        }
    }

    /// Reads the rest of a string after its first backslash.
    #[inline(never)]
    fn escaped(&mut self, plain: &str) -> Option<String> {
        let mut out = String::with_capacity(plain.len() + 64);
        out.push_str(plain);
        loop {
            out.push(self.escape()?);
            out.push_str(self.plain_run()?);
            if self.next_is_quote() {
                return Some(out);
            }
        }
    }

    /// Returns the text before the next quote or backslash.
    #[inline(always)]
    fn plain_run(&mut self) -> Option<&'a str> {
        let start = self.position;
        self.position = self.marks.next(self.text.as_bytes(), start)?;
        Some(&self.text[start..self.position])
    }

    /// Skips the quote or backslash at the position; returns whether it is a quote.
    #[inline(always)]
    fn next_is_quote(&mut self) -> bool {
        self.position += 1;
        self.text.as_bytes()[self.position - 1] == b'"'
    }

    /// Reads an escape after the backslash. Surrogate pairs are rare and left to the slow reader.
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
                let digits = self.text.as_bytes().get(self.position..self.position + 4)?;
                self.position += 4;
                match digits {
                    b"0001" => return Some('\u{1}'), // separates properties
                    b"0002" => return Some('\u{2}'),
                    _ => {}
                }
                let digit = |code, digit: &u8| Some(code << 4 | char::from(*digit).to_digit(16)?);
                char::from_u32(digits.iter().try_fold(0, digit)?)?
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
        text.parse().ok() // a fraction or an exponent fails at the next delimiter
    }

    /// Checks that only white space is left.
    pub(in super::super) fn end(&mut self) -> Option<()> {
        self.skip_space();
        (self.position == self.text.len()).then_some(())
    }

    #[inline(always)]
    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    #[inline(always)]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.position += 1;
        Some(byte)
    }

    /// Returns the next byte that is not white space, and moves the position to it.
    #[inline(always)]
    fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.text.as_bytes().get(self.position).copied()
    }

    #[inline(always)]
    fn skip_space(&mut self) {
        // Headers usually have no white space, so one check is enough.
        if self.text.as_bytes().get(self.position) > Some(&b' ') {
            return;
        }
        let rest = &self.text.as_bytes()[self.position..];
        self.position += rest
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_with_escapes_are_owned_and_others_borrowed() {
        let read = |text| Scanner::new(text).string();
        assert!(matches!(
            read("\"plain é\" rest"),
            Some(Cow::Borrowed("plain é"))
        ));
        let escaped = read(r#""a\u0001b\u00e9\n\"c\\""#);
        assert_eq!(escaped.as_deref(), Some("a\u{1}bé\n\"c\\"));
        for odd in [
            r#""\ud83d\ude00""#,
            r#""\q""#,
            r#""\u12""#,
            r#""\u12g4""#,
            "\"open",
        ] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }
}
