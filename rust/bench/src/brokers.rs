//! The masters that a run uses: the routes of its topics, which it creates where they are missing.

use std::time::Duration;

use super::exchange::Answer;
use super::route::{self, Broker, Purpose, TOPIC_NOT_EXIST};
use super::{BenchError, Load, topics};

/// Asks for the masters that have queues of the topics. Creates missing topics if the run needs
/// them; `created` gets the time of each creation.
///
/// A run that writes to one unknown topic uses the template's brokers, which create the topic.
pub(super) fn brokers(
    load: &Load,
    purpose: Purpose,
    created: &mut Vec<Duration>,
) -> Result<Vec<Broker>, BenchError> {
    let mut namesrv = route::namesrv(load)?;
    let mut answers = route::ask(&mut namesrv, load)?;
    let is_unknown = |answer: &Answer| answer.code == TOPIC_NOT_EXIST;
    let is_left_to_broker = purpose == Purpose::Write && load.topics == 1 && load.queues == 0;
    if purpose != Purpose::Read && answers.iter().any(is_unknown) {
        if is_left_to_broker {
            return route::template(&mut namesrv, load);
        }
        (*created, answers) = topics::create(&mut namesrv, load, &answers)?;
    }
    let mut found = Vec::new();
    for (topic, answer) in answers.into_iter().enumerate() {
        let topic = u32::try_from(topic).unwrap_or(u32::MAX);
        route::add(
            &mut found,
            topic,
            (&namesrv.address, load),
            (purpose, answer),
        )?;
    }
    Ok(found)
}
