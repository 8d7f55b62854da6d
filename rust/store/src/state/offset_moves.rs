//! An operator's changes to committed offsets: list, reset, clone, remove.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use super::offsets::{ByQueue, Offsets, entry_or_default, place};

impl Offsets {
    /// The committed offsets of a group: topic to queue to offset.
    pub fn of_group(&self, group: &str) -> BTreeMap<String, ByQueue> {
        let groups = self.groups.read();
        let topics = groups.get(group).into_iter().flatten();
        topics
            .map(|(topic, queues)| (topic.clone(), queues.clone()))
            .collect()
    }

    /// Resets a group to another offset of a queue. Until the group's next pull, which
    /// [`Self::take_reset`] answers, its commits have no effect.
    pub fn reset(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        self.resets.set(place(group, topic, queue_id), offset);
        self.set(group, topic, queue_id, offset);
    }

    /// The offset of a reset since the group's last pull from a queue; returned once.
    pub fn take_reset(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        let take = |offsets: &mut HashMap<_, _>| offsets.remove(&place(group, topic, queue_id));
        self.resets.with(take).flatten()
    }

    /// Copies the committed offsets of `from` in a topic to `to`; returns the number of queues.
    pub fn clone_group(&self, from: &str, to: &str, topic: &str) -> usize {
        let mut groups = self.groups.write();
        let Some(queues) = groups.get(from).and_then(|topics| topics.get(topic)) else {
            return 0;
        };
        let (queues, count) = (queues.clone(), queues.len());
        let to_queues = entry_or_default(entry_or_default(&mut groups, to), topic);
        let before = to_queues.len();
        to_queues.extend(queues);
        self.count
            .fetch_add(to_queues.len() - before, Ordering::Relaxed);
        drop(groups);
        self.version.fetch_add(1, Ordering::Release);
        count
    }

    /// Removes the offsets of a group, in one topic or in all; returns the number of removed
    /// offsets.
    pub fn remove(&self, group: &str, topic: Option<&str>) -> usize {
        self.resets
            .forget(|place| place.0 == group && topic.is_none_or(|topic| place.1 == topic));
        let mut groups = self.groups.write();
        let removed = match topic {
            None => groups
                .remove(group)
                .unwrap_or_default()
                .into_values()
                .collect(),
            Some(topic) => {
                let of_topic = groups
                    .get_mut(group)
                    .and_then(|topics| topics.remove(topic));
                Vec::from_iter(of_topic)
            }
        };
        groups.retain(|_, topics| !topics.is_empty());
        let count = removed.iter().map(BTreeMap::len).sum();
        self.count.fetch_sub(count, Ordering::Relaxed);
        drop(groups);
        if count > 0 {
            self.version.fetch_add(1, Ordering::Release);
        }
        count
    }

    /// Deletes the committed offset of a group in one queue; returns whether there was one.
    pub fn remove_queue(&self, group: &str, topic: &str, queue_id: i32) -> bool {
        let queue_id = self.queue_id_in(group, queue_id);
        self.resets
            .forget(|known| *known == place(group, topic, queue_id));
        let mut groups = self.groups.write();
        let Some(topics) = groups.get_mut(group) else {
            return false;
        };
        let Some(queues) = topics.get_mut(topic) else {
            return false;
        };
        if queues.remove(&queue_id).is_none() {
            return false;
        }
        if queues.is_empty() {
            topics.remove(topic);
        }
        if topics.is_empty() {
            groups.remove(group);
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        drop(groups);
        self.version.fetch_add(1, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets() -> Offsets {
        let offsets = Offsets::default();
        offsets.commit("g", "T", 0, 5, usize::MAX);
        offsets.commit("g", "T", 1, 7, usize::MAX);
        offsets.commit("g", "U", 0, 1, usize::MAX);
        offsets.commit("other", "T", 0, 9, usize::MAX);
        offsets
    }

    #[test]
    fn a_reset_is_returned_once_and_late_commits_do_not_undo_it() {
        let offsets = offsets();
        assert_eq!(offsets.take_reset("g", "T", 0), None);
        offsets.reset("g", "T", 0, 2);
        offsets.commit("g", "T", 0, 6, usize::MAX);
        offsets.commit("g", "T", 1, 8, usize::MAX);
        assert_eq!(offsets.of_group("g")["T"], BTreeMap::from([(0, 2), (1, 8)]));
        assert_eq!(offsets.take_reset("other", "T", 0), None);
        assert_eq!(offsets.take_reset("g", "T", 0), Some(2));
        assert_eq!(offsets.take_reset("g", "T", 0), None);
        offsets.commit("g", "T", 0, 3, usize::MAX);
        assert_eq!(offsets.get("g", "T", 0), Some(3));
    }

    #[test]
    fn one_queue_is_forgotten_and_the_others_stay() {
        let offsets = offsets();
        assert!(offsets.remove_queue("g", "T", 0));
        assert!(!offsets.remove_queue("g", "T", 0), "it is gone");
        assert!(!offsets.remove_queue("nobody", "T", 0));
        assert_eq!(offsets.of_group("g")["T"], BTreeMap::from([(1, 7)]));
        assert!(offsets.remove_queue("g", "T", 1) && offsets.remove_queue("g", "U", 0));
        assert_eq!((offsets.count(), offsets.all().len()), (1, 1));
    }

    #[test]
    fn a_clone_overwrites_common_queues() {
        let offsets = offsets();
        assert_eq!(offsets.clone_group("g", "other", "T"), 2);
        let cloned = BTreeMap::from([("T".to_owned(), BTreeMap::from([(0, 5), (1, 7)]))]);
        assert_eq!(offsets.of_group("other"), cloned);
        assert_eq!(offsets.clone_group("g", "other", "None"), 0);
        assert_eq!(offsets.clone_group("nobody", "x", "T"), 0);
        assert!(offsets.of_group("x").is_empty());
    }

    #[test]
    fn a_group_is_removed_from_one_topic_or_from_all() {
        let offsets = offsets();
        offsets.reset("g", "T", 0, 2);
        assert_eq!(offsets.remove("g", Some("T")), 2);
        assert_eq!(offsets.take_reset("g", "T", 0), None);
        assert_eq!(offsets.remove("g", Some("T")), 0);
        assert_eq!(offsets.of_group("g").len(), 1);
        assert_eq!(offsets.remove("g", None), 1);
        assert!(offsets.of_group("g").is_empty());
        assert_eq!(offsets.all().len(), 1);
    }
}
