//! Where a topic's queues are.

use serde_json::Value;

use super::exchange::Exchange;
use super::{BenchError, Load};
use crate::format::fastjson;

const GET_ROUTEINFO_BY_TOPIC: i32 = 105;
const TOPIC_NOT_EXIST: i32 = 17;
/// The template from which brokers create unknown topics at their first message.
const TEMPLATE_TOPIC: &str = "TBW102";
/// Queues a client asks for in a topic that is created so.
const NEW_TOPIC_QUEUES: i64 = 4;
const MASTER_ID: &str = "0";

const READABLE: i64 = 4;
const WRITABLE: i64 = 2;

/// A broker's master and how many of its queues can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub address: String,
    pub queues: i32,
}

/// What the queues are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Write,
    Read,
}

/// Asks the NameServer for the masters that have queues of the topic.
///
/// To write into an unknown topic, the template's brokers are taken: they create it.
pub(super) fn targets(load: &Load, purpose: Purpose) -> Result<Vec<Target>, BenchError> {
    let mut namesrv = Exchange::connect(&load.namesrv, load.timeout())?;
    let mut limit = i64::MAX;
    let ask = |namesrv: &mut Exchange, topic: &str| {
        namesrv.call(GET_ROUTEINFO_BY_TOPIC, &[("topic", topic.into())])
    };
    let mut answer = ask(&mut namesrv, &load.topic)?;
    if answer.code == TOPIC_NOT_EXIST && purpose == Purpose::Write {
        answer = ask(&mut namesrv, TEMPLATE_TOPIC)?;
        limit = NEW_TOPIC_QUEUES;
    }
    let answer = answer.accepted(&load.namesrv)?;
    let unreadable = |cause| BenchError::Wire {
        address: load.namesrv.clone(),
        cause,
    };
    let found = parse(&answer.body, purpose, limit).map_err(unreadable)?;
    if found.is_empty() {
        return Err(BenchError::NoQueue {
            topic: load.topic.clone(),
            purpose: if purpose == Purpose::Write {
                "writable"
            } else {
                "readable"
            },
            namesrv: load.namesrv.clone(),
        });
    }
    Ok(found)
}

fn parse(body: &[u8], purpose: Purpose, limit: i64) -> Result<Vec<Target>, String> {
    let strict = fastjson::to_strict(&String::from_utf8_lossy(body)).map_err(|e| e.to_string())?;
    let route: Value = serde_json::from_str(&strict).map_err(|error| error.to_string())?;
    let (needed, queues_field) = match purpose {
        Purpose::Write => (WRITABLE, "writeQueueNums"),
        Purpose::Read => (READABLE, "readQueueNums"),
    };
    let array = |name: &str| {
        route[name]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    let mut targets = Vec::new();
    for queue_data in array("queueDatas") {
        let perm = queue_data["perm"].as_i64().unwrap_or(0);
        let queues = queue_data[queues_field].as_i64().unwrap_or(0).min(limit);
        let broker = array("brokerDatas")
            .iter()
            .find(|b| b["brokerName"] == queue_data["brokerName"]);
        let master = broker.and_then(|broker| broker["brokerAddrs"][MASTER_ID].as_str());
        if let (true, Some(address), Ok(queues @ 1..)) =
            (perm & needed != 0, master, i32::try_from(queues))
        {
            targets.push(Target {
                address: address.to_owned(),
                queues,
            });
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_masters_with_the_right_perm_count() {
        let body = br#"{"brokerDatas":[{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"a"},
            {"brokerAddrs":{"1":"h:3"},"brokerName":"b"},
            {"brokerAddrs":{"0":"h:4"},"brokerName":"c"}],
            "queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":8,"writeQueueNums":5},
            {"brokerName":"b","perm":6,"readQueueNums":1,"writeQueueNums":1},
            {"brokerName":"c","perm":4,"readQueueNums":3,"writeQueueNums":3}]}"#;
        let target = |address: &str, queues| Target {
            address: address.to_owned(),
            queues,
        };
        assert_eq!(parse(body, Purpose::Write, 4), Ok(vec![target("h:1", 4)]));
        let readable = vec![target("h:1", 8), target("h:4", 3)];
        assert_eq!(parse(body, Purpose::Read, i64::MAX), Ok(readable));
    }
}
