//! The rights that each request code needs: RocketMQ's `PlainAccessValidator.parse`.
//!
//! RocketMQ omits batches, replies, queue locks and requests to a consumer. Codes that are not
//! listed here need only a valid signature, or an admin account. `mqserver/broker/acl/rights.py`
//! gives the reason for every code.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use mq_format::codes::{
    CONSUME_MESSAGE_DIRECTLY, CONSUMER_SEND_MSG_BACK, GET_CONSUMER_LIST_BY_GROUP,
    GET_CONSUMER_RUNNING_INFO, HEART_BEAT, LOCK_BATCH_MQ, PULL_MESSAGE, QUERY_CONSUME_QUEUE,
    QUERY_MESSAGE, SEND_BATCH_MESSAGE, SEND_MESSAGE, SEND_MESSAGE_V2, SEND_REPLY_MESSAGE,
    SEND_REPLY_MESSAGE_V2, UNLOCK_BATCH_MQ, UNREGISTER_CLIENT, UPDATE_CONSUMER_OFFSET,
};
use mq_format::fastjson::to_strict;
use mq_format::message::RETRY_PREFIX;
use mq_format::remoting::Frame;

/// Permission bit: may send.
pub(crate) const PUB: u8 = 4;
/// Permission bit: may consume.
pub(crate) const SUB: u8 = 8;

/// A topic or group for which permissions are granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    Topic(&'a str),
    Group(&'a str),
}

impl<'a> Resource<'a> {
    /// The resource of a topic. A retry topic maps to its group, because RocketMQ stores the
    /// permissions of groups under the name of the retry topic.
    fn topic(name: &'a str) -> Self {
        name.strip_prefix(RETRY_PREFIX)
            .map_or(Self::Topic(name), Self::Group)
    }

    /// "topic:NAME" or "group:NAME", as in RocketMQ's refusals.
    pub(crate) fn named(self, shorten: impl Fn(&str) -> &str) -> String {
        match self {
            Self::Topic(name) => format!("topic:{}", shorten(name)),
            Self::Group(name) => format!("group:{}", shorten(name)),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Heartbeat {
    #[serde(default)]
    consumer_data_set: Option<Vec<Consumer>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Consumer {
    #[serde(default)]
    group_name: Option<String>,
    #[serde(default)]
    subscription_data_set: Option<Vec<Subscribed>>,
}

#[derive(Deserialize)]
struct Subscribed {
    #[serde(default)]
    topic: Option<String>,
}

/// The parts of the body of 41 and 42 that need a right.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Locks {
    #[serde(default)]
    consumer_group: Option<String>,
    #[serde(default)]
    mq_set: Option<Vec<Subscribed>>,
}

/// Calls `ask` for each resource of the request, with the permission bits that it needs there.
///
/// A missing field needs no right, because the handler refuses the request.
///
/// # Errors
/// A text, for a body that cannot be read: a request that cannot be checked is not served.
pub(crate) fn needs(
    frame: &Frame<'_>,
    ask: &mut dyn FnMut(Resource<'_>, u8),
) -> Result<(), String> {
    let field = |name| frame.ext.get(name);
    let topic = |name| field(name).map(Resource::topic);
    let group = |name| field(name).map(Resource::Group);
    let send = |topic_field, group_field| match topic(topic_field) {
        // RocketMQ checks the group that the request names, not the group of the topic.
        Some(Resource::Group(_)) => (group(group_field), SUB),
        other => (other, PUB),
    };
    let asked = match frame.code {
        SEND_MESSAGE | SEND_REPLY_MESSAGE => [send("topic", "group"), (None, 0)],
        SEND_MESSAGE_V2 | SEND_BATCH_MESSAGE | SEND_REPLY_MESSAGE_V2 => [send("b", "a"), (None, 0)],
        CONSUMER_SEND_MSG_BACK => [(group("group"), SUB), (None, 0)],
        PULL_MESSAGE | UPDATE_CONSUMER_OFFSET => {
            [(topic("topic"), SUB), (group("consumerGroup"), SUB)]
        }
        QUERY_MESSAGE | QUERY_CONSUME_QUEUE => [(topic("topic"), SUB), (None, 0)],
        UNREGISTER_CLIENT
        | GET_CONSUMER_LIST_BY_GROUP
        | GET_CONSUMER_RUNNING_INFO
        | CONSUME_MESSAGE_DIRECTLY => [(group("consumerGroup"), SUB), (None, 0)],
        LOCK_BATCH_MQ | UNLOCK_BATCH_MQ => return locks(frame.body, ask),
        HEART_BEAT => return heartbeat(frame.body, ask),
        _ => return Ok(()),
    };
    for (resource, bits) in asked {
        if let Some(resource) = resource {
            ask(resource, bits);
        }
    }
    Ok(())
}

/// Reads a body as strictly as the processor: wrong types and repeated names are errors.
fn read<T: DeserializeOwned>(body: &[u8], what: &str) -> Result<T, String> {
    let strict = std::str::from_utf8(body)
        .ok()
        .and_then(|text| to_strict(text).ok());
    let read = strict.and_then(|strict| serde_json::from_str(&strict).ok());
    read.ok_or_else(|| format!("the {what} cannot be read"))
}

fn locks(body: &[u8], ask: &mut dyn FnMut(Resource<'_>, u8)) -> Result<(), String> {
    let locks: Locks = read(body, "queues to lock")?;
    if let Some(group) = &locks.consumer_group {
        ask(Resource::Group(group), SUB);
    }
    for topic in locks.mq_set.iter().flatten() {
        if let Some(topic) = &topic.topic {
            ask(Resource::topic(topic), SUB);
        }
    }
    Ok(())
}

fn heartbeat(body: &[u8], ask: &mut dyn FnMut(Resource<'_>, u8)) -> Result<(), String> {
    let heartbeat: Heartbeat = read(body, "heartbeat")?;
    for consumer in heartbeat.consumer_data_set.iter().flatten() {
        if let Some(group) = &consumer.group_name {
            ask(Resource::Group(group), SUB);
        }
        let subscribed = consumer.subscription_data_set.iter().flatten();
        for topic in subscribed.filter_map(|subscribed| subscribed.topic.as_deref()) {
            ask(Resource::topic(topic), SUB);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mq_format::remoting::{FieldValue, Head, Serialize};

    fn asked(code: i32, fields: &[(&str, &str)], body: &[u8]) -> Result<Vec<String>, String> {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, FieldValue::Text(value)))
            .collect();
        let mut bytes = Vec::new();
        Head::request(code, 1, Serialize::Json).encode(&fields, body, &mut bytes);
        let mut asked = Vec::new();
        needs(&Frame::decode(&bytes).unwrap(), &mut |resource, bits| {
            asked.push(format!("{} {bits}", resource.named(|name| name)));
        })?;
        Ok(asked)
    }

    /// Code, fields, and the rights that they need.
    type Row<'a> = (i32, &'a [(&'a str, &'a str)], &'a [&'a str]);

    /// Every row of RocketMQ's table, and our own rows.
    #[test]
    fn each_code_asks_for_its_rights() {
        let v1 = [("topic", "T"), ("producerGroup", "p")];
        let v2 = [("a", "p"), ("b", "T")];
        let v2_retry = [("a", "p"), ("b", "%RETRY%g")];
        let pull = [("topic", "T"), ("consumerGroup", "g")];
        let pull_retry = [("topic", "%RETRY%g"), ("consumerGroup", "g")];
        let group = [("consumerGroup", "g")];
        let rows: [Row<'_>; 22] = [
            (10, &v1, &["topic:T 4"]),
            (10, &[("topic", "%RETRY%g")], &[]),
            (10, &[("topic", "%RETRY%g"), ("group", "x")], &["group:x 8"]),
            (310, &v2, &["topic:T 4"]),
            (310, &v2_retry, &["group:p 8"]),
            (36, &[("group", "g"), ("originTopic", "T")], &["group:g 8"]),
            (11, &pull, &["topic:T 8", "group:g 8"]),
            (11, &pull_retry, &["group:g 8", "group:g 8"]),
            (12, &[("topic", "T"), ("key", "k")], &["topic:T 8"]),
            (35, &[("producerGroup", "p")], &[]),
            (35, &group, &["group:g 8"]),
            (38, &group, &["group:g 8"]),
            (15, &pull, &["topic:T 8", "group:g 8"]),
            (320, &v2, &["topic:T 4"]),
            (14, &pull, &[]),
            (324, &v1, &["topic:T 4"]),
            (325, &v2, &["topic:T 4"]),
            (307, &group, &["group:g 8"]),
            (309, &group, &["group:g 8"]),
            (321, &pull, &["topic:T 8"]),
            (37, &[("producerGroup", "p")], &[]),
            (50, &[("accessKey", "other")], &[]),
        ];
        for (code, fields, wanted) in rows {
            assert_eq!(
                asked(code, fields, b"").unwrap(),
                wanted,
                "{code} {fields:?}"
            );
        }
    }

    #[test]
    fn heartbeats_ask_for_every_group_and_topic() {
        let body = br#"{"clientID":"c","consumerDataSet":[
            {"groupName":"g","subscriptionDataSet":[{"topic":"T"},{"topic":"%RETRY%g"}]},
            {"groupName":"h","subscriptionDataSet":null}],"producerDataSet":[{"groupName":"p"}]}"#;
        let wanted = ["group:g 8", "topic:T 8", "group:g 8", "group:h 8"];
        assert_eq!(asked(34, &[], body).unwrap(), wanted);
        assert_eq!(asked(34, &[], b"{'clientID':'c',}").unwrap(), [""; 0]);
    }

    #[test]
    fn locks_ask_for_the_group_and_every_topic() {
        let body = br#"{"consumerGroup":"g","clientId":"c","mqSet":[{"topic":"T","queueId":0}]}"#;
        for code in [LOCK_BATCH_MQ, UNLOCK_BATCH_MQ] {
            assert_eq!(asked(code, &[], body).unwrap(), ["group:g 8", "topic:T 8"]);
            assert!(asked(code, &[], b"nonsense").is_err());
        }
    }

    #[test]
    fn a_heartbeat_that_could_be_read_in_two_ways_is_refused() {
        let twice = br#"{"consumerDataSet":[],"consumerDataSet":[{"groupName":"g"}]}"#;
        let bodies: [&[u8]; 6] = [
            twice,
            b"",
            b"nonsense",
            b"{\"consumerDataSet\":{}}",
            b"{\"consumerDataSet\":[{\"groupName\":7}]}",
            b"{\"consumerDataSet\":[{\"groupName\":\"\xff\"}]}",
        ];
        for body in bodies {
            assert!(
                asked(34, &[], body).is_err(),
                "{}",
                String::from_utf8_lossy(body)
            );
        }
    }
}
