//! Reads numbers in text as Java does.

/// Like `Double.valueOf`: spaces at both ends, exponent, type suffix, NaN, Infinity, hexadecimal.
pub(super) fn double(text: &str) -> Option<f64> {
    let text = text.trim_matches(|c: char| c <= ' ');
    let (is_negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let value = match rest {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        _ => finite(rest)?,
    };
    Some(if is_negative { -value } else { value })
}

fn finite(text: &str) -> Option<f64> {
    let number = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return hexadecimal(digits);
    }
    // Rust also accepts words and signs here.
    let is_decimal = number
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
        && number.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if is_decimal {
        number.parse().ok()
    } else {
        None
    }
}

/// Reads the part after `0x`: digits with an optional point, and a binary exponent.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once(['p', 'P'])?;
    let exponent = exponent
        .strip_suffix(['f', 'F', 'd', 'D'])
        .unwrap_or(exponent);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() == 0 {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let shift = i32::try_from(fraction.len()).ok()?.checked_mul(4)?;
    let exponent = exponent.parse::<i32>().ok()?.checked_sub(shift)?;
    Some(value * 2f64.powi(exponent))
}

#[cfg(test)]
mod tests {
    use super::double;

    #[test]
    fn java_reads_these() {
        let cases = [
            (" 7 ", 7.0),
            ("1f", 1.0),
            ("1.", 1.0),
            (".5d", 0.5),
            ("-1e-3D", -0.001),
            ("0x1p3", 8.0),
            ("0X.8P1f", 1.0),
            ("+Infinity", f64::INFINITY),
        ];
        for (text, value) in cases {
            assert_eq!(double(text), Some(value), "{text}");
        }
        assert!(double("NaN").is_some_and(f64::is_nan));
    }

    #[test]
    fn java_refuses_these() {
        for text in [
            "", " ", "inf", "nan", "infinity", "1_0", "--1", "1 2", "0x1", "f", ".", "e5",
        ] {
            assert_eq!(double(text), None, "{text}");
        }
    }
}
