use super::*;

fn record(born_host: &str, store_host: &str) -> RecordView<'static> {
    RecordView {
        version: Version::V1,
        body_crc: body_crc(b"Hello RocketMQ 0"),
        queue_id: 3,
        flag: -1,
        queue_offset: 7,
        physical_offset: 190,
        sys_flag: 0,
        born_timestamp_ms: 1_795_246_270_344,
        born_host: born_host.parse().unwrap(),
        store_timestamp_ms: 1_795_246_270_383,
        store_host: store_host.parse().unwrap(),
        reconsume_times: 2,
        prepared_transaction_offset: 5,
        body: b"Hello RocketMQ 0",
        topic: "TopicTest",
        properties: b"TAGS\x01TagA",
    }
}

#[test]
fn every_pair_of_host_families_survives_a_round_trip() {
    for born in ["127.0.0.1:49526", "[2001:db8::1]:80"] {
        for store in ["10.0.0.7:10911", "[::1]:10911"] {
            let mut bytes = Vec::new();
            record(born, store).encode(&mut bytes);
            let assigned = Assigned {
                queue_offset: 70,
                physical_offset: 1 << 40,
                store_timestamp_ms: 9,
            };
            patch(&mut bytes, assigned);
            let head = &bytes[..STATED_BYTES];
            assert_eq!(stated_offset(head), Some(1 << 40));
            assert_eq!(stated_store_timestamp(head), Some(9));
            assert_eq!(stated_store_timestamp(&head[..40]), None);
            let view = RecordView::parse(&bytes, CheckCrc::Yes).unwrap();
            let expected = RecordView {
                queue_offset: 70,
                physical_offset: 1 << 40,
                store_timestamp_ms: 9,
                sys_flag: view.sys_flag,
                ..record(born, store)
            };
            assert_eq!(view, expected);
            assert_eq!(Outline::parse(&bytes), Ok(view.outline()));
            assert_eq!(view.size(), bytes.len());
            assert_eq!(Head::parse(&bytes), Head::Record(bytes.len()));
        }
    }
}

#[test]
fn a_version_2_record_has_two_bytes_of_topic_length() {
    let topic = "t".repeat(200);
    let long = RecordView {
        version: Version::V2,
        topic: &topic,
        ..record("1.2.3.4:5", "1.2.3.4:5")
    };
    let mut bytes = Vec::new();
    long.encode(&mut bytes);
    assert_eq!(RecordView::parse(&bytes, CheckCrc::Yes), Ok(long));
}

#[test]
fn a_property_is_added_to_an_encoded_record() {
    for text in ["", "TAGS\x01TagA", "TAGS\x01TagA\x02"] {
        let separator = if text.ends_with('A') { "\x02" } else { "" };
        let expected = format!("{text}{separator}N\x010,1");
        let before = RecordView {
            properties: text.as_bytes(),
            ..record("127.0.0.1:49526", "[::1]:10911")
        };
        let (mut bytes, mut whole) = (Vec::new(), Vec::new());
        before.encode(&mut bytes);
        let added = add_property(&mut bytes, text.len(), "N", b"0,1");
        assert_eq!(added, Some(expected.len()));
        let after = RecordView {
            properties: expected.as_bytes(),
            ..before
        };
        after.encode(&mut whole);
        assert_eq!(bytes, whole);
        let too_much = vec![b'x'; PROPERTIES_BYTES_MAX - expected.len() - 2];
        assert_eq!(
            add_property(&mut bytes, expected.len(), "N", &too_much),
            None
        );
        assert_eq!(bytes, whole);
    }
}

#[test]
fn each_kind_of_damage_has_its_own_error() {
    let mut bytes = Vec::new();
    record("1.2.3.4:5", "1.2.3.4:5").encode(&mut bytes);
    let parse = |bytes: &[u8]| {
        let error = RecordView::parse(bytes, CheckCrc::Yes).unwrap_err();
        if !matches!(error, RecordError::BodyCrc { .. }) {
            assert_eq!(Outline::parse(bytes), Err(error));
        }
        error
    };
    let needed = bytes.len();
    let short = RecordError::Incomplete {
        needed,
        available: needed - 1,
    };
    assert_eq!(parse(&bytes[..needed - 1]), short);

    let mut flipped = bytes.clone();
    flipped[90] ^= 1;
    assert!(matches!(parse(&flipped), RecordError::BodyCrc { .. }));
    assert!(RecordView::parse(&flipped, CheckCrc::No).is_ok());

    let mut shorter = bytes.clone();
    shorter[3] -= 1;
    assert!(matches!(parse(&shorter), RecordError::Field(_)));
    let mut longer = bytes.clone();
    longer[3] += 1;
    longer.push(0);
    assert!(matches!(parse(&longer), RecordError::Size { .. }));

    assert_eq!(parse(&[0; 200]), RecordError::Magic(0));
    assert_eq!(parse(&blank(5735)), RecordError::Blank);
    assert_eq!(Head::parse(&blank(5735)), Head::Blank);
    assert_eq!(Head::parse(&[0; 8]), Head::Neither);
    assert_eq!(Head::parse(&[]), Head::Neither);
}

#[test]
fn java_hash_counts_utf16_units_and_wraps() {
    assert_eq!(java_hash("TagA"), 2_598_919);
    assert_eq!(java_hash("polygenelubricants"), i32::MIN);
    // U+1D11E is the pair D834 DD1E.
    assert_eq!(java_hash("\u{1D11E}"), 0xD834 * 31 + 0xDD1E);
    assert_eq!(java_hash(""), 0);
    let text = "~z{|}~\u{7f}\u{7e}0123456789ABCDEF#".repeat(3);
    for end in 0..text.len() {
        let one_by_one = text.bytes().take(end).fold(0_i32, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(byte.into())
        });
        assert_eq!(java_hash(&text[..end]), one_by_one, "{end}");
    }
}

#[test]
fn a_delayed_message_is_coded_by_its_delivery_time() {
    let levels = DelayLevels::parse("1s 5s").unwrap();
    let plain = record("1.2.3.4:5", "1.2.3.4:5");
    assert_eq!(plain.tags_code(&levels), 2_598_919);
    let delayed = |properties| RecordView {
        topic: SCHEDULE_TOPIC,
        properties,
        ..plain
    };
    let at = plain.store_timestamp_ms;
    assert_eq!(delayed(b"DELAY\x012").tags_code(&levels), at + 5_000);
    assert_eq!(delayed(b"DELAY\x0199\x02").tags_code(&levels), at + 5_000);
    assert_eq!(
        delayed(b"DELAY\x010\x02TAGS\x01TagA").tags_code(&levels),
        2_598_919
    );
    assert_eq!(delayed(b"").tags_code(&levels), 0);
}
