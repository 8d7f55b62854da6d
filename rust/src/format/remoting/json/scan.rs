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
        let plain = self.plain_run()?;
        if self.next_is_quote() {
            return Some(Cow::Borrowed(plain));
        }
        let mut out = String::with_capacity(plain.len() + 64);
        out.push_str(plain);
        loop {
            out.push(self.escape()?);
            out.push_str(self.plain_run()?);
            if self.next_is_quote() {
                return Some(Cow::Owned(out));
            }
        }
    }

    /// Takes the text before the next quote or backslash.
    fn plain_run(&mut self) -> Option<&'a str> {
        let start = self.position;
        self.position += quote_or_backslash(&self.text.as_bytes()[start..])?;
        Some(&self.text[start..self.position])
    }

    /// Goes over the quote or backslash that is here, and tells which it is.
    fn next_is_quote(&mut self) -> bool {
        self.position += 1;
        self.text.as_bytes()[self.position - 1] == b'"'
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
                let digits = self.text.as_bytes().get(self.position..self.position + 4)?;
                self.position += 4;
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

/// Where the first quote or backslash is; eight bytes at a time, since headers are mostly text.
fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    const QUOTES: u64 = u64::from_ne_bytes([b'"'; 8]);
    const BACKSLASHES: u64 = u64::from_ne_bytes([b'\\'; 8]);
    // Has a high bit where a byte is zero; bits above the first such byte may be wrong.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zeros(word ^ QUOTES) | zeros(word ^ BACKSLASHES);
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let in_tail = tail.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    Some(words.len() * 8 + in_tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_quote_or_backslash_is_found_wherever_it_is() {
        for length in 0..40 {
            let mut bytes = vec![b'!'; length]; // one below a quote: the trick's weak spot
            assert_eq!(quote_or_backslash(&bytes), None);
            for at in 0..length {
                bytes[at] = if at % 2 == 0 { b'"' } else { b'\\' };
                bytes[at + 1..].fill(b'#');
                assert_eq!(quote_or_backslash(&bytes), Some(at));
                bytes[at] = 0xA2;
            }
        }
    }

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
