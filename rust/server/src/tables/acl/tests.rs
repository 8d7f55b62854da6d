//! The order of the checks, and the text of each refusal.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::*;
use crate::tables::acl_needs::SUB;
use mq_format::remoting::{FieldValue, Frame, Head, Serialize};
use mq_format::signature::{ACCESS_KEY, SIGNATURE, Signer};

const SECRET: &str = "12345678";

fn named(pairs: &[(&str, u8)]) -> HashMap<String, u8> {
    let owned = pairs.iter().map(|(name, bits)| ((*name).to_owned(), *bits));
    owned.collect()
}

fn account(admin: bool, topics: &[(&str, u8)], groups: &[(&str, u8)]) -> Account {
    Account {
        signer: Signer::new(SECRET).unwrap(),
        admin,
        white: Vec::new(),
        default_topic: DENY,
        default_group: SUB,
        topics: named(topics),
        groups: named(groups),
    }
}

fn rules() -> AclRules {
    let topics = [
        ("AclPub", PUB),
        ("AclSub", SUB),
        ("Both", PUB | SUB),
        ("No", DENY | PUB),
    ];
    let accounts = [
        ("rocketuser", account(false, &topics, &[("closed", DENY)])),
        ("rocketadmin", account(true, &[], &[])),
        ("fussyadmin", account(true, &[("AclPub", PUB)], &[])),
    ];
    AclRules {
        accounts: accounts
            .map(|(key, account)| (key.to_owned(), account))
            .into(),
        admin_codes: [17, 25, 50, 200, 207, 215].into(),
        ..AclRules::default()
    }
}

fn table(rules: AclRules) -> AclTable {
    let table = AclTable::default();
    table.rules.publish(1, rules).unwrap();
    table
}

fn signed(code: i32, key: Option<&str>, fields: &[(&str, &str)], secret: &str) -> Vec<u8> {
    let mut all = fields.to_vec();
    all.extend(key.map(|key| (ACCESS_KEY, key)));
    let signature = Signer::new(secret).unwrap().sign(&all, b"body");
    if key.is_some() {
        all.push((SIGNATURE, &signature));
    }
    let all: Vec<_> = all
        .iter()
        .map(|(name, value)| (*name, FieldValue::Text(value)))
        .collect();
    let mut bytes = Vec::new();
    Head::request(code, 1, Serialize::Json).encode(&all, b"body", &mut bytes);
    bytes
}

fn why(table: &AclTable, bytes: &[u8], remote: &str) -> String {
    let remote: SocketAddr = remote.parse().unwrap();
    let frame = Frame::decode(bytes).unwrap();
    table.refusal(&frame, remote).unwrap_or_default()
}

fn asked(key: Option<&str>, code: i32, fields: &[(&str, &str)]) -> String {
    let table = table(rules());
    why(&table, &signed(code, key, fields, SECRET), "192.0.2.1:5")
}

#[test]
fn without_rules_everything_passes() {
    let bytes = signed(310, None, &[("b", "T")], SECRET);
    assert_eq!(why(&AclTable::default(), &bytes, "192.0.2.1:5"), "");
}

#[test]
fn refusals_say_what_rocketmq_says() {
    let user = Some("rocketuser");
    let send = |topic| asked(user, 310, &[("b", topic)]);
    assert_eq!(send("AclPub"), "");
    assert_eq!(send("Both"), "");
    for topic in ["AclSub", "No", "Other"] {
        assert_eq!(
            send(topic),
            format!("No default permission for topic:{topic}")
        );
    }
    assert_eq!(
        asked(None, 310, &[("b", "AclPub")]),
        "No accessKey is configured"
    );
    let unknown = asked(Some("nosuchuser"), 310, &[("b", "AclPub")]);
    assert_eq!(unknown, "No acl config for nosuchuser");
    let group = asked(user, 38, &[("consumerGroup", "closed")]);
    assert_eq!(group, "No default permission for group:closed");
    assert_eq!(asked(user, 38, &[("consumerGroup", "other")]), "");
    let wrong = signed(310, user, &[("b", "AclPub")], "87654321");
    let refusal = why(&table(rules()), &wrong, "192.0.2.1:5");
    assert_eq!(refusal, "Check signature failed for accessKey=rocketuser");
}

#[test]
fn administration_needs_an_admin_and_denials_apply_to_admins() {
    for code in [17, 25, 200, 207, 215] {
        let refusal = asked(Some("rocketuser"), code, &[]);
        let wanted = format!(
            "Need admin permission for request code={code}, but accessKey=rocketuser is not"
        );
        assert_eq!(refusal, wanted);
        assert_eq!(asked(Some("rocketadmin"), code, &[]), "");
    }
    assert_eq!(asked(Some("rocketuser"), 26, &[]), "");
    assert_eq!(asked(Some("rocketadmin"), 310, &[("b", "Any")]), "");
    let refusal = asked(Some("fussyadmin"), 310, &[("b", "Any")]);
    assert_eq!(refusal, "No default permission for topic:Any");
}

#[test]
fn traces_may_be_written_but_not_read_by_anyone() {
    assert_eq!(asked(Some("rocketuser"), 310, &[("b", TRACE)]), "");
    let read = asked(Some("rocketuser"), 12, &[("topic", TRACE)]);
    assert_eq!(read, format!("No default permission for topic:{TRACE}"));
}

const TRACE: &str = "RMQ_SYS_TRACE_TOPIC";

#[test]
fn a_white_address_skips_permissions_but_not_the_signature() {
    let office = || vec![AddressPattern(vec![(192, 192), (0, 0), (2, 2), (0, 255)])];
    let mut own = rules();
    own.accounts.get_mut("rocketuser").unwrap().white = office();
    let mut global = rules();
    global.white = office();
    let denied = signed(310, Some("rocketuser"), &[("b", "AclSub")], SECRET);
    let forged = signed(310, Some("rocketuser"), &[("b", "AclSub")], "87654321");
    for mut rules in [own, global] {
        rules.white_skips_signature = false;
        let table = table(rules);
        assert_eq!(why(&table, &denied, "192.0.2.1:5"), "");
        assert_eq!(why(&table, &denied, "[::ffff:192.0.2.1]:5"), "");
        assert!(why(&table, &forged, "192.0.2.1:5").starts_with("Check signature failed"));
        assert!(why(&table, &denied, "192.0.3.1:5").starts_with("No default permission"));
    }
}

#[test]
fn a_white_address_replaces_the_signature_only_if_configured() {
    let anybody = || vec![AddressPattern(Vec::new())];
    let forged = signed(310, Some("rocketuser"), &[("b", "AclSub")], "87654321");
    let nameless = signed(310, None, &[("b", "AclSub")], SECRET);
    let mut own = rules();
    own.white_skips_signature = true;
    own.accounts.get_mut("rocketuser").unwrap().white = anybody();
    let own = table(own);
    assert_eq!(why(&own, &forged, "192.0.2.1:5"), "");
    assert_eq!(
        why(&own, &nameless, "192.0.2.1:5"),
        "No accessKey is configured"
    );
    let mut global = rules();
    global.white_skips_signature = true;
    global.white = anybody();
    let global = table(global);
    assert_eq!(why(&global, &nameless, "[2001:db8::1]:5"), "");
}

#[test]
fn a_white_address_makes_no_account_an_admin() {
    let anybody = || vec![AddressPattern(Vec::new())];
    let ask = |key, code, skips| {
        let mut rules = rules();
        rules.white = anybody();
        rules.white_skips_signature = skips;
        rules.accounts.get_mut("rocketuser").unwrap().white = anybody();
        why(
            &table(rules),
            &signed(code, key, &[], SECRET),
            "192.0.2.1:5",
        )
    };
    for skips in [false, true] {
        for code in [17, 25, 50, 200] {
            let wanted = format!(
                "Need admin permission for request code={code}, but accessKey=rocketuser is not"
            );
            assert_eq!(ask(Some("rocketuser"), code, skips), wanted);
            assert_eq!(ask(None, code, skips), "No accessKey is configured");
            assert_eq!(ask(Some("rocketadmin"), code, skips), "");
        }
        assert_eq!(ask(Some("rocketuser"), 310, skips), "");
    }
}

#[test]
fn patterns_are_ranges_of_each_part() {
    let wide = AddressPattern(vec![(10, 10), (0, 255), (1, 5), (7, 7)]);
    for (address, matches) in [("10.9.5.7", true), ("10.9.6.7", false), ("10.9.5.8", false)] {
        assert_eq!(wide.matches(address.parse().unwrap()), matches, "{address}");
    }
    assert!(!wide.matches("::1".parse().unwrap()));
    let v6 = AddressPattern([[(0x2001, 0x2001); 1].to_vec(), [(0, 0xFFFF); 7].to_vec()].concat());
    assert!(v6.matches("2001:db8::7".parse().unwrap()));
    assert!(!v6.matches("2002:db8::7".parse().unwrap()));
}

#[test]
fn refusals_are_counted_and_short() {
    let table = table(rules());
    let long = "x".repeat(100_000);
    let refusal = why(
        &table,
        &signed(310, Some(&long), &[], SECRET),
        "192.0.2.1:5",
    );
    assert_eq!(refusal.len(), "No acl config for ".len() + 255);
    let topic = signed(310, Some("rocketuser"), &[("b", &long)], SECRET);
    assert!(why(&table, &topic, "192.0.2.1:6").len() < 300);
    let denials = table.take_denials();
    assert_eq!(denials.count, 2);
    assert_eq!(denials.last.unwrap().0, "192.0.2.1:6");
    assert_eq!(table.take_denials().count, 0);
}

#[test]
fn versions_rise() {
    let table = table(rules());
    assert!(table.rules.publish(1, AclRules::default()).is_err());
    table.rules.publish(2, AclRules::default()).unwrap();
    let refusal = why(
        &table,
        &signed(310, Some("rocketuser"), &[], SECRET),
        "192.0.2.1:5",
    );
    assert_eq!(refusal, "No acl config for rocketuser");
}
