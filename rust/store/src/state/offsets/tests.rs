//! Committed offsets, in memory and in their files.
use super::*;

fn reopened(state: &StateFiles) -> BTreeMap<String, ByQueue> {
    Offsets::load(state, false).unwrap().all()
}

#[test]
fn commits_survive_a_save_and_a_removal_too() {
    let root = tempfile::tempdir().unwrap();
    let state = StateFiles::new(root.path());
    let offsets = Offsets::load(&state, false).unwrap();
    offsets.commit("g", "T", 1, 7, usize::MAX);
    offsets.commit("g", "T", 0, 5, usize::MAX);
    offsets.commit("other", "%RETRY%g", 0, 1, usize::MAX);
    assert_eq!(offsets.get("g", "T", 1), Some(7));
    assert_eq!(offsets.get("g", "T", 2), None);
    assert_eq!(offsets.get("nobody", "T", 1), None);
    offsets.save(&state).unwrap();
    assert_eq!(reopened(&state), offsets.all());
    assert_eq!(offsets.all()["T@g"], BTreeMap::from([(0, 5), (1, 7)]));
    assert_eq!(offsets.remove("g", None), 2);
    offsets.save(&state).unwrap();
    assert_eq!(reopened(&state).len(), 1);
}

#[test]
fn a_full_table_accepts_known_queues_only() {
    let root = tempfile::tempdir().unwrap();
    let state = StateFiles::new(root.path());
    let offsets = Offsets::load(&state, false).unwrap();
    assert!(offsets.commit("g", "T", 0, 1, 2));
    assert!(offsets.commit("g", "T", 1, 1, 2));
    for (group, topic, queue_id) in [("g", "T", 2), ("g", "U", 0), ("h", "T", 0)] {
        assert!(!offsets.commit(group, topic, queue_id, 1, 2));
        assert_eq!(offsets.get(group, topic, queue_id), None);
    }
    assert!(offsets.commit("g", "T", 1, 7, 0), "known");
    assert_eq!((offsets.get("g", "T", 1), offsets.count()), (Some(7), 2));
    offsets.save(&state).unwrap();
    let again = Offsets::load(&state, false).unwrap();
    assert_eq!(again.count(), 2, "what is in the file counts");
    assert_eq!((again.clone_group("g", "h", "T"), again.count()), (2, 4));
    assert_eq!((again.clone_group("g", "h", "T"), again.count()), (2, 4));
    assert_eq!((again.remove("g", None), again.count()), (2, 2));
    assert_eq!((again.remove("h", Some("T")), again.count()), (2, 0));
}

#[test]
fn a_failed_save_is_repeated_by_the_next_one() {
    let root = tempfile::tempdir().unwrap();
    let state = StateFiles::new(root.path());
    let offsets = Offsets::load(&state, false).unwrap();
    offsets.commit("g", "T", 1, 7, usize::MAX);
    let in_the_way = root.path().join("config/consumerOffset.json.tmp");
    std::fs::create_dir_all(&in_the_way).unwrap();
    offsets.save(&state).unwrap_err();
    std::fs::remove_dir(&in_the_way).unwrap();
    offsets.save(&state).unwrap();
    assert_eq!(reopened(&state), offsets.all());
}

#[test]
fn an_unchanged_table_is_not_written() {
    let root = tempfile::tempdir().unwrap();
    let state = StateFiles::new(root.path());
    let offsets = Offsets::load(&state, false).unwrap();
    offsets.save(&state).unwrap();
    assert!(!root.path().join("config").exists());
}

#[test]
fn the_text_equals_rocketmqs() {
    let table = BTreeMap::from([
        ("A@g".to_owned(), BTreeMap::from([(0, 5), (1, 7)])),
        ("B@g".to_owned(), BTreeMap::from([(0, 0)])),
    ]);
    let text =
        "{\n\t\"offsetTable\":{\n\t\t\"A@g\":{0:5,1:7\n\t\t},\n\t\t\"B@g\":{0:0\n\t\t}\n\t}\n}";
    assert_eq!(render(&table), text);
    assert_eq!(render(&BTreeMap::new()), "{\n\t\"offsetTable\":{}\n}");
    assert_eq!(parse(text.as_bytes()).unwrap().0["g"]["A"][&1], 7);
}

#[test]
fn a_text_without_an_offset_table_is_refused() {
    let reason = |text: &[u8]| parse(text).unwrap_err();
    let cut = reason(b"{\"offsetTable\":{\"T@g\":{0:");
    assert!(cut.contains("at byte 25"), "{cut}");
    assert!(reason(b"{\"offsetTable\xff").contains("at byte 13"));
    reason(b"[]");
    reason(b"{\"offsetTable\":[]}");
    let all_bad = reason(b"{\"offsetTable\":{\"T@g\":{\"x\":1}}}");
    assert_eq!(all_bad, "T@g x: no queue id");
    assert!(reason(b"{}").contains("an empty object"));
    assert!(parse(b"{\"offsetTable\":{}}").unwrap().0.is_empty());
}

#[test]
fn a_bad_entry_is_set_aside_and_the_others_are_kept() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("config")).unwrap();
    let text = r#"{"offsetTable":{"T@g":{0:5,1:"x",2:7},"no group":{0:1},"T@a/b":{0:1},
            "T@odd name":{0:99999999999999999999},"%RETRY%\u00fc@\u00fc":{0:3}}}"#;
    let path = root.path().join("config/consumerOffset.json");
    std::fs::write(path, text).unwrap();
    let state = StateFiles::new(root.path());
    let offsets = Offsets::load(&state, false).unwrap();
    let kept = [("%RETRY%ü@ü", &[(0, 3)][..]), ("T@g", &[(0, 5), (2, 7)])];
    let kept = kept.map(|(key, queues)| (key.to_owned(), queues.iter().copied().collect()));
    assert_eq!(offsets.all(), BTreeMap::from(kept));
    let aside = root
        .path()
        .join("mqstack/quarantine/consumerOffset.json.entries.jsonl");
    let aside = std::fs::read_to_string(aside).unwrap();
    for name in ["T@g 1", "no group", "T@a/b", "T@odd name 0"] {
        assert!(
            aside.contains(&format!("\"name\":\"{name}\"")),
            "{name} in {aside}"
        );
    }
    assert_eq!(aside.lines().count(), 4);
}

#[test]
fn light_groups_have_a_table_and_a_file_of_their_own() {
    let root = tempfile::tempdir().unwrap();
    let state = StateFiles::new(root.path());
    let before = Offsets::load(&state, false).unwrap();
    before.commit("g", "T", 1, 7, usize::MAX);
    before.save(&state).unwrap();

    let offsets = Offsets::load(&state, true).unwrap();
    assert_eq!(offsets.get("g", "T", 1), Some(7), "taken along");
    offsets.commit("%LMQ%alice", "%LMQ%alice", 3, 9, usize::MAX);
    assert_eq!(offsets.get("%LMQ%alice", "%LMQ%alice", 0), Some(9));
    offsets.save(&state).unwrap();
    let saved = std::fs::read_to_string(root.path().join("config/lmqConsumerOffset.json"));
    let text = "{\n\t\"lmqOffsetTable\":{\n\t\t\"%LMQ%alice@%LMQ%alice\":9\n\t},\n\t\
                    \"offsetTable\":{\n\t\t\"T@g\":{1:7\n\t\t}\n\t}\n}";
    assert_eq!(saved.unwrap(), text);
    assert_eq!(Offsets::load(&state, true).unwrap().all(), offsets.all());
    assert_eq!(offsets.remove("%LMQ%alice", None), 1);
    offsets.save(&state).unwrap();
    assert_eq!(Offsets::load(&state, true).unwrap().all(), before.all());
}

#[test]
fn the_file_of_the_golden_store_is_read_and_written_alike() {
    let root = mq_testing::stores::unpack("store-lmq");
    let path = root.path().join("config/lmqConsumerOffset.json");
    let golden = std::fs::read_to_string(path).unwrap();
    let offsets = Offsets::load(&StateFiles::new(root.path()), true).unwrap();
    assert_eq!(render_with_lmq(offsets.all()), golden);
    assert_eq!(parse(golden.as_bytes()).unwrap().0, ByGroup::new());
    parse(b"{\"lmqOffsetTable\":{\"T@g\":{}}}").unwrap_err();
}
