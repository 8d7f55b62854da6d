//! Where in the log the records of some places are. A place is a queue and a queue offset.

use std::collections::HashMap;

use super::recovery::Recovery;
use crate::scan::log_io;
use crate::scan::log_scanner::{LogScanner, Step};
use crate::types::StoreError;
use mq_format::message::{Outline, sys_flag};

/// A queue and a queue offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    topic: String,
    queue_id: i32,
    queue_offset: i64,
}

impl Place {
    pub(super) fn new(topic: &str, queue_id: i32, queue_offset: i64) -> Self {
        Self {
            topic: topic.to_owned(),
            queue_id,
            queue_offset,
        }
    }

    /// The place `by` queue offsets later.
    fn moved(&self, by: i64) -> Self {
        Self::new(
            &self.topic,
            self.queue_id,
            self.queue_offset.wrapping_add(by),
        )
    }
}

/// Whether a record fits among the records of the queue that it states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// It stands between the previous and the next one, or beside one of them.
    Right,
    /// Another record states the same place, or the neighbours are on the wrong side.
    Wrong,
    /// The log has no neighbour.
    Unknown,
}

/// The log offsets of the records that state certain places.
#[derive(Debug, Default)]
pub(super) struct StatedPlaces(HashMap<String, HashMap<(i32, i64), Vec<u64>>>);

impl StatedPlaces {
    /// Asks for the records of a place.
    pub(super) fn ask(&mut self, place: &Place) {
        let of_topic = self.0.entry(place.topic.clone()).or_default();
        let of_place = of_topic.entry((place.queue_id, place.queue_offset));
        of_place.or_default();
    }

    /// Asks for the records of a place and of its neighbours.
    pub(super) fn ask_around(&mut self, place: &Place) {
        [-1, 0, 1].iter().for_each(|by| self.ask(&place.moved(*by)));
    }

    /// Adds a record that starts at a log offset, if its place was asked for.
    fn note(&mut self, topic: &str, queue_id: i32, queue_offset: i64, at: u64) {
        let of_topic = self.0.get_mut(topic);
        let of_place = of_topic.and_then(|of_topic| of_topic.get_mut(&(queue_id, queue_offset)));
        if let Some(of_place) = of_place {
            of_place.push(at);
        }
    }

    /// The log offsets of the records that state a place.
    pub(super) fn of(&self, place: &Place) -> &[u64] {
        let of_topic = self.0.get(&place.topic);
        let of_place =
            of_topic.and_then(|of_topic| of_topic.get(&(place.queue_id, place.queue_offset)));
        of_place.map_or(&[], Vec::as_slice)
    }

    /// Whether the record at a log offset fits where it states to be.
    pub(super) fn fit(&self, stated: &Place, at: u64) -> Fit {
        let [before, same, after] = [-1, 0, 1].map(|by| stated.moved(by));
        let (before, after) = (self.of(&before), self.of(&after));
        let is_alone = self.of(&same).iter().all(|other| *other == at);
        let is_between =
            before.iter().all(|before| *before < at) && after.iter().all(|after| *after > at);
        match (
            is_alone && is_between,
            before.is_empty() && after.is_empty(),
        ) {
            (false, _) => Fit::Wrong,
            (true, true) => Fit::Unknown,
            (true, false) => Fit::Right,
        }
    }
}

impl Recovery<'_> {
    /// Finds the records of places in the valid log range `[from, to)`.
    pub(super) fn find_places(
        &self,
        places: &mut StatedPlaces,
        (from, to): (u64, u64),
    ) -> Result<(), StoreError> {
        let multi = self.settings.multi_dispatch;
        let mut scanner = LogScanner::from(from);
        loop {
            let at = scanner.offset();
            let record = match scanner.step(self.log, to).map_err(log_io)? {
                Step::Record(bytes) => Outline::parse(bytes),
                Step::Blank => continue,
                Step::Invalid | Step::End => return Ok(()),
            };
            let Ok(record) = record else {
                continue;
            };
            if !sys_flag::is_queued(record.sys_flag) {
                continue;
            }
            places.note(record.topic, record.queue_id, record.queue_offset, at);
            for (name, id, offset) in multi.further_queues(record.properties, record.queue_id) {
                places.note(name, id, offset, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_fits_between_its_neighbours() {
        let fit = |records: &[(i64, u64)]| {
            let mut places = StatedPlaces::default();
            places.ask_around(&Place::new("T", 1, 5));
            for (queue_offset, at) in records {
                places.note("T", 1, *queue_offset, *at);
                places.note("T", 2, *queue_offset, *at + 1);
            }
            places.fit(&Place::new("T", 1, 5), 500)
        };
        assert_eq!(fit(&[(5, 500), (4, 400), (6, 600)]), Fit::Right);
        assert_eq!(fit(&[(5, 500), (4, 400)]), Fit::Right);
        assert_eq!(fit(&[(5, 500), (6, 600)]), Fit::Right);
        assert_eq!(fit(&[(5, 500), (3, 300), (7, 700)]), Fit::Unknown);
        assert_eq!(fit(&[(5, 500), (4, 400), (6, 450)]), Fit::Wrong);
        assert_eq!(fit(&[(5, 500), (4, 550)]), Fit::Wrong);
        assert_eq!(fit(&[(5, 500), (5, 700), (4, 400), (6, 800)]), Fit::Wrong);
    }
}
