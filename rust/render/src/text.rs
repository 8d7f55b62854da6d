//! Numbers, times and text as Python writes them in JSON.

use crate::sink::Sink;

/// The two digits of every number below 100.
const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";
const TEN_TO_8: i64 = 100_000_000;
const TEN_TO_16: i64 = TEN_TO_8 * TEN_TO_8;
/// The digit '0' eight times.
const ZEROS: u64 = 0x3030_3030_3030_3030;
const HEX: &[u8; 16] = b"0123456789abcdef";
const UPPER_HEX: &[u8; 16] = b"0123456789ABCDEF";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const DAY_MS: i64 = 86_400_000;
/// Days that Python's datetime supports, counted from the epoch: years 1 to 9999.
const DAYS: std::ops::Range<i64> = -719_162..2_932_897;

/// Appends a decimal number.
#[inline]
pub(crate) fn write_number(value: i64, out: &mut Sink) {
    match value {
        0..10 => out.push(b'0' + value as u8),
        10..TEN_TO_8 => write_up_to_8(value as u64, out),
        TEN_TO_8..TEN_TO_16 => {
            write_up_to_8((value / TEN_TO_8) as u64, out);
            out.put_all(&(eight_digits((value % TEN_TO_8) as u64) | ZEROS).to_le_bytes());
        }
        _ => write_any_number(value, out),
    }
}

/// Appends a number of up to 8 digits, without leading zeros.
#[inline]
fn write_up_to_8(value: u64, out: &mut Sink) {
    let digits = eight_digits(value);
    let zeros = digits.trailing_zeros() / 8;
    let text = (digits | ZEROS) >> (8 * zeros);
    out.put_first(&text.to_le_bytes(), 8 - zeros as usize);
}

/// The digits of a number below 10^8, one per byte, the first digit in the lowest byte. Splits all
/// parts in half three times, in parallel. The factors are 2^20 / 100 and 2^10 / 10, rounded up.
#[inline]
fn eight_digits(value: u64) -> u64 {
    let fours = (value / 10_000) | ((value % 10_000) << 32);
    let high = ((fours * 10_486) >> 20) & 0x7F_0000_007F;
    let twos = high | ((fours - 100 * high) << 16);
    let high = ((twos * 103) >> 10) & 0xF_000F_000F_000F;
    high | ((twos - 10 * high) << 8)
}

/// Appends a negative or a large number.
#[inline(never)]
fn write_any_number(value: i64, out: &mut Sink) {
    if value < 0 {
        out.push(b'-');
    }
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    while rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.put(&digits[at..]);
}

/// Appends a string in quotes.
pub(super) fn write_string(text: &str, out: &mut Sink) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut done = 0;
    // Checks all bytes without an early exit, so the loop vectorizes.
    if bytes
        .iter()
        .fold(false, |any, byte| any | must_escape(*byte))
    {
        for (at, byte) in bytes.iter().enumerate() {
            if must_escape(*byte) {
                out.put(&bytes[done..at]);
                write_escape(*byte, out);
                done = at + 1;
            }
        }
    }
    out.put(&bytes[done..]);
    out.push(b'"');
}

fn must_escape(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

fn write_escape(byte: u8, out: &mut Sink) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0C => b'f',
        _ => {
            out.put_all(b"\\u00");
            return push_hex(byte, HEX, out);
        }
    };
    out.put_all(&[b'\\', short]);
}

fn push_hex(byte: u8, digits: &[u8; 16], out: &mut Sink) {
    let (high, low) = (byte >> 4, byte & 15);
    out.put_all(&[digits[usize::from(high)], digits[usize::from(low)]]);
}

/// Appends lower-case hex digits in quotes.
pub(super) fn write_hex(bytes: &[u8], out: &mut Sink) {
    out.push(b'"');
    for byte in bytes {
        push_hex(*byte, HEX, out);
    }
    out.push(b'"');
}

/// Appends the upper-case hex digits of a host or an offset.
#[inline]
pub(crate) fn write_hex_upper(bytes: &[u8], out: &mut Sink) {
    for byte in bytes {
        push_hex(*byte, UPPER_HEX, out);
    }
}

/// Appends a number below 256.
pub(crate) fn write_octet(value: u8, out: &mut Sink) {
    let pair = usize::from(value % 100) * 2;
    let digits = [b'0' + value / 100, PAIRS[pair], PAIRS[pair + 1]];
    let zeros = usize::from(value < 100) + usize::from(value < 10);
    out.put(&digits[zeros..]);
}

/// Appends padded base64 in quotes.
pub(super) fn write_base64(bytes: &[u8], out: &mut Sink) {
    let digit = |bits: u32| BASE64[(bits & 63) as usize];
    out.push(b'"');
    let (triples, rest) = bytes.as_chunks::<3>();
    for [a, b, c] in triples {
        let bits = u32::from_be_bytes([0, *a, *b, *c]);
        out.put_all(&[18, 12, 6, 0].map(|shift| digit(bits >> shift)));
    }
    match *rest {
        [a] => {
            let bits = u32::from(a) << 16;
            out.put_all(&[digit(bits >> 18), digit(bits >> 12), b'=', b'=']);
        }
        [a, b] => {
            let bits = u32::from_be_bytes([0, a, b, 0]);
            let digits = [18, 12, 6].map(|shift| digit(bits >> shift));
            out.put_all(&digits);
            out.push(b'=');
        }
        _ => {}
    }
    out.push(b'"');
}

/// Appends a UTC time in quotes, like Python's `isoformat(timespec="milliseconds")`; null for a
/// year that Python's datetime does not support.
pub(super) fn write_time(timestamp_ms: i64, out: &mut Sink) {
    let (days, of_day) = (
        timestamp_ms.div_euclid(DAY_MS),
        timestamp_ms.rem_euclid(DAY_MS),
    );
    if !DAYS.contains(&days) {
        return out.put_all(b"null");
    }
    let (year, month, day) = civil(days);
    let mut text = *b"\"0000-00-00T00:00:00.000+00:00\"";
    let mut put = |at: usize, value: i64| {
        let pair = value as usize * 2;
        text[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    };
    put(1, year / 100);
    put(3, year % 100);
    put(6, month);
    put(9, day);
    put(12, of_day / 3_600_000);
    put(15, of_day / 60_000 % 60);
    put(18, of_day / 1_000 % 60);
    put(21, of_day % 1_000 / 10);
    text[23] = b'0' + (of_day % 10) as u8;
    out.put_all(&text);
}

/// Year, month and day of a day since the epoch, in the Gregorian calendar. Counts in eras of 400
/// years that begin in March, so that the leap day is the last day of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}
