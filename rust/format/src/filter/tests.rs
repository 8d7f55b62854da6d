//! Compares results with RocketMQ 4.9.7's results for the same expressions.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;

use super::Sql;
use crate::properties::Wanted;

const GOLDEN: &str = include_str!("../../../../tests/golden/filter/sql92.jsonl");

fn letter(sql: &Sql, properties: &HashMap<String, String>) -> char {
    let get = |name: &Wanted| {
        properties
            .get(name.name())
            .map(|text| Cow::Borrowed(text.as_str()))
    };
    match sql.evaluate(&get) {
        Ok(Some(true)) => 'T',
        Ok(Some(false)) => 'F',
        Ok(None) => 'N',
        Err(_) => 'E',
    }
}

#[test]
fn every_recorded_expression_compiles_and_evaluates_as_in_java() {
    let mut lines = GOLDEN
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let head: Value = lines.next().unwrap();
    let properties: Vec<HashMap<String, String>> =
        serde_json::from_value(head["properties"].clone()).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for case in lines {
        let text = case["expression"].as_str().unwrap();
        let ours = Sql::compile(text).ok();
        let results = ours.map(|sql| properties.iter().map(|one| letter(&sql, one)).collect());
        let results: Option<String> = results;
        if results.as_deref() != case["results"].as_str() {
            wrong.push(format!(
                "{text}\n  Java {} ours {results:?}",
                case["results"]
            ));
        }
        count += 1;
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(count > 900);
}

#[test]
fn properties_text_is_looked_up() {
    let sql = Sql::compile("a > 5 AND region IN ('eu', 'us')").unwrap();
    assert!(sql.matches(b"a\x016\x02region\x01eu\x02"));
    assert!(!sql.matches(b"a\x015\x02region\x01eu\x02"));
    assert!(!sql.matches(b"region\x01eu\x02"));
    assert!(!sql.matches(b"a\x01six\x02region\x01eu\x02"));
}

/// Expressions and the reason why they do not compile; "" if they do.
const WRONG: &[(&str, &str)] = &[
    (
        "a >",
        "a value is missing: the expression ends at line 1, column 4",
    ),
    ("a > 5)) AND", ""),
    (
        "(a > 5",
        "\")\" is missing: the expression ends at line 1, column 7",
    ),
    (
        "a > 5 AND )",
        "a value is missing: \")\" at line 1, column 11",
    ),
    (
        "a >\n  5 AND\n  ü = 1",
        "unknown symbol: \"ü\" at line 3, column 3",
    ),
    (
        "a = 'x",
        "a text without its closing quote: \"'x\" at line 1, column 5",
    ),
    (
        "a IN (5)",
        "a text in single quotes is missing: \"5\" at line 1, column 7",
    ),
    ("a IN 'x'", "\"(\" is missing: \"'x'\" at line 1, column 6"),
    (
        "a NOT LIKE 'x'",
        "\"BETWEEN\" or \"IN\" is missing: \"LIKE\" at line 1, column 7",
    ),
    ("a IS 5", "\"NULL\" is missing: \"5\" at line 1, column 6"),
    (
        "a IS NOT 5",
        "\"NULL\" is missing: \"5\" at line 1, column 10",
    ),
    (
        "a BETWEEN 1 OR 2",
        "\"AND\" is missing: \"OR\" at line 1, column 13",
    ),
    (
        "a = NULL",
        "NULL cannot be compared; use IS NULL: \"=\" at line 1, column 3",
    ),
    (
        "TRUE <> 5",
        "a truth value cannot be compared with another value: \"<>\" at line 1, column 6",
    ),
    (
        "a > 'x'",
        "only numbers and properties have an order: \">\" at line 1, column 3",
    ),
    (
        "a BETWEEN 2 AND 1",
        "BETWEEN needs the smaller number first: \"BETWEEN\" at line 1, column 3",
    ),
    (
        "5 IN ('x')",
        "IN needs a property on its left: \"IN\" at line 1, column 3",
    ),
    (
        "a = 1 AND 5",
        "a number or text is neither true nor false: \"5\" at line 1, column 11",
    ),
    (
        "5 OR a = 1",
        "a number or text is neither true nor false: \"5\" at line 1, column 1",
    ),
    (
        "NOT 'x'",
        "a number or text is neither true nor false: \"'x'\" at line 1, column 5",
    ),
    (
        "5",
        "a number or text is neither true nor false: \"5\" at line 1, column 1",
    ),
    (
        "a = 9223372036854775808",
        "the number is above 9223372036854775807: \"9223372036854775808\" at line 1, column 5",
    ),
    (
        "a = 0.0",
        "the number is 0 or too large for a double: \"0.0\" at line 1, column 5",
    ),
    (
        "",
        "a value is missing: the expression ends at line 1, column 1",
    ),
];

#[test]
fn an_error_names_the_symbol_and_its_place() {
    for (text, reason) in WRONG {
        let error = Sql::compile(text).err().map(|error| error.to_string());
        let wanted = (!reason.is_empty()).then(|| format!("Invalid MessageSelector. {reason}"));
        assert_eq!(error, wanted, "{text}");
    }
}

#[test]
fn an_error_is_short_and_its_place_exact() {
    let error = Sql::compile(&format!("a > '{}'", "x".repeat(60_000))).unwrap_err();
    assert!(error.to_string().len() < 200, "{error}");
    let error = Sql::compile("ab AND '\u{fffd}\n' > 5").unwrap_err();
    let symbol = error.symbol().unwrap();
    assert_eq!(
        (symbol.text.as_str(), symbol.line, symbol.column),
        (">", 2, 3)
    );
}

#[test]
fn nesting_is_bounded() {
    let deep = |depth: usize| format!("{}a = 5{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Sql::compile(&deep(309)).is_ok());
    let error = Sql::compile(&deep(30_000)).unwrap_err();
    assert!(error.to_string().contains("310 deep"), "{error}");
    assert!(Sql::compile(&"NOT ".repeat(10_000)).is_err());
    assert!(Sql::compile(&format!("a{}", " = a".repeat(10_000))).is_err());
}

#[test]
fn an_expression_over_64_kib_is_refused_unread() {
    let long = |bytes: usize| format!("a = '{}'", "x".repeat(bytes - 6));
    assert!(Sql::compile(&long(64 << 10)).is_ok());
    let error = Sql::compile(&long((64 << 10) + 1)).unwrap_err();
    let wanted = "Invalid MessageSelector. it has 65537 bytes, and at most 65536 are taken";
    assert_eq!(error.to_string(), wanted);
}

#[test]
fn the_deepest_nesting_fits_the_stack_of_a_thread() {
    // The default stack of a Rust thread, and so of the server's workers.
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let nested = thread.spawn(|| {
        let deep = |open: &str, depth: usize, close: &str| {
            format!("{}a = 5{}", open.repeat(depth), close.repeat(depth))
        };
        let chained = format!("a{} = 5", " = a".repeat(308));
        for text in [
            deep("(", 309, ")"),
            deep("NOT (", 150, ")"),
            deep("(TRUE OR ", 309, ")"),
            chained,
        ] {
            let sql = Sql::compile(&text).unwrap();
            sql.matches(b"a\x015\x02");
        }
    });
    nested.unwrap().join().unwrap();
}

proptest::proptest! {
    #[test]
    fn any_text_compiles_or_is_refused(
        words in proptest::collection::vec(
            "NOT|AND|OR|BETWEEN|IN|IS|NULL|TRUE|a|5|5.5|'x'|\\(|\\)|,|=|<>|>=|-|\\+|--|/\\*|;",
            0..30,
        ),
        text in ".{0,40}",
    ) {
        for text in [words.join(" "), text] {
            if let Ok(sql) = Sql::compile(&text) {
                sql.matches(b"a\x015\x02");
            }
        }
    }
}
