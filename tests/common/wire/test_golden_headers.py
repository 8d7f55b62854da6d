"""Headers and bodies of the recorded sessions are read and written without loss."""

import json

import pytest

from mqcommon import fastjson
from mqcommon.message import MessageQueue
from mqcommon.wire import decode
from mqcommon.wire.bodies import acl, common, groups, heartbeat, offsets, route, running, topics
from mqcommon.wire.bodies.base import Body, BodyError
from mqcommon.wire.headers import admin, clients, namesrv, pull, send
from mqcommon.wire.headers import offsets as offset_headers
from mqcommon.wire.headers.base import Header, HeaderError
from tests.common.wire.golden import SESSIONS, frames

NOT_HEADER = {"Signature", "AccessKey", "SecurityToken", "ReqT"}
ADDED = {"MSG_REGION", "TRACE_ON"}
"""The trace hook adds these to every reply to a send, also to a refusal."""

REQUESTS: dict[str, type[Header]] = {
    "SEND_MESSAGE": send.SendMessageRequestHeader,
    "SEND_MESSAGE_V2": send.SendMessageRequestHeaderV2,
    "SEND_BATCH_MESSAGE": send.SendMessageRequestHeaderV2,
    "SEND_REPLY_MESSAGE_V2": send.SendMessageRequestHeaderV2,
    "CONSUMER_SEND_MSG_BACK": send.ConsumerSendMsgBackRequestHeader,
    "END_TRANSACTION": send.EndTransactionRequestHeader,
    "CHECK_TRANSACTION_STATE": send.CheckTransactionStateRequestHeader,
    "PUSH_REPLY_MESSAGE_TO_CLIENT": send.ReplyMessageRequestHeader,
    "PULL_MESSAGE": pull.PullMessageRequestHeader,
    "QUERY_MESSAGE": pull.QueryMessageRequestHeader,
    "VIEW_MESSAGE_BY_ID": pull.ViewMessageRequestHeader,
    "QUERY_CONSUMER_OFFSET": offset_headers.QueryConsumerOffsetRequestHeader,
    "UPDATE_CONSUMER_OFFSET": offset_headers.UpdateConsumerOffsetRequestHeader,
    "SEARCH_OFFSET_BY_TIMESTAMP": offset_headers.SearchOffsetRequestHeader,
    "GET_MAX_OFFSET": offset_headers.QueueRequestHeader,
    "GET_MIN_OFFSET": offset_headers.QueueRequestHeader,
    "GET_EARLIEST_MSG_STORETIME": offset_headers.QueueRequestHeader,
    "INVOKE_BROKER_TO_RESET_OFFSET": offset_headers.ResetOffsetRequestHeader,
    "RESET_CONSUMER_CLIENT_OFFSET": offset_headers.ResetOffsetRequestHeader,
    "CLONE_GROUP_OFFSET": offset_headers.CloneGroupOffsetRequestHeader,
    "QUERY_CORRECTION_OFFSET": offset_headers.QueryCorrectionOffsetHeader,
    "UNREGISTER_CLIENT": clients.UnregisterClientRequestHeader,
    "GET_CONSUMER_LIST_BY_GROUP": clients.ConsumerGroupRequestHeader,
    "NOTIFY_CONSUMER_IDS_CHANGED": clients.ConsumerGroupRequestHeader,
    "GET_CONSUMER_CONNECTION_LIST": clients.ConsumerGroupRequestHeader,
    "GET_PRODUCER_CONNECTION_LIST": clients.ProducerGroupRequestHeader,
    "INVOKE_BROKER_TO_GET_CONSUMER_STATUS": clients.GetConsumerStatusRequestHeader,
    "GET_CONSUMER_RUNNING_INFO": clients.GetConsumerRunningInfoRequestHeader,
    "CONSUME_MESSAGE_DIRECTLY": clients.ConsumeMessageDirectlyResultRequestHeader,
    "GET_ROUTEINFO_BY_TOPIC": namesrv.GetRouteInfoRequestHeader,
    "REGISTER_BROKER": namesrv.RegisterBrokerRequestHeader,
    "UNREGISTER_BROKER": namesrv.BrokerIdentityRequestHeader,
    "QUERY_DATA_VERSION": namesrv.BrokerIdentityRequestHeader,
    "PUT_KV_CONFIG": namesrv.PutKVConfigRequestHeader,
    "GET_KV_CONFIG": namesrv.KVConfigKeyRequestHeader,
    "DELETE_KV_CONFIG": namesrv.KVConfigKeyRequestHeader,
    "DELETE_TOPIC_IN_NAMESRV": namesrv.DeleteTopicFromNamesrvRequestHeader,
    "WIPE_WRITE_PERM_OF_BROKER": namesrv.BrokerNameRequestHeader,
    "ADD_WRITE_PERM_OF_BROKER": namesrv.BrokerNameRequestHeader,
    "UPDATE_AND_CREATE_TOPIC": admin.CreateTopicRequestHeader,
    "GET_TOPIC_STATS_INFO": admin.TopicRequestHeader,
    "DELETE_TOPIC_IN_BROKER": admin.TopicRequestHeader,
    "QUERY_TOPIC_CONSUME_BY_WHO": admin.TopicRequestHeader,
    "DELETE_SUBSCRIPTIONGROUP": admin.DeleteSubscriptionGroupRequestHeader,
    "GET_CONSUME_STATS": admin.GetConsumeStatsRequestHeader,
    "VIEW_BROKER_STATS_DATA": admin.ViewBrokerStatsDataRequestHeader,
    "GET_BROKER_CONSUME_STATS": admin.GetConsumeStatsInBrokerHeader,
    "QUERY_CONSUME_QUEUE": admin.QueryConsumeQueueRequestHeader,
    "UPDATE_AND_CREATE_ACL_CONFIG": admin.CreateAccessConfigRequestHeader,
    "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG": admin.UpdateGlobalWhiteAddrsConfigRequestHeader,
    "DELETE_ACL_CONFIG": admin.DeleteAccessConfigRequestHeader,
}
RESPONSES: dict[str, type[Header]] = {
    "SEND_MESSAGE": send.SendMessageResponseHeader,
    "SEND_MESSAGE_V2": send.SendMessageResponseHeader,
    "SEND_BATCH_MESSAGE": send.SendMessageResponseHeader,
    "SEND_REPLY_MESSAGE_V2": send.SendMessageResponseHeader,
    "PULL_MESSAGE": pull.PullMessageResponseHeader,
    "QUERY_MESSAGE": pull.QueryMessageResponseHeader,
    "QUERY_CONSUMER_OFFSET": offset_headers.OffsetResponseHeader,
    "GET_MAX_OFFSET": offset_headers.OffsetResponseHeader,
    "GET_MIN_OFFSET": offset_headers.OffsetResponseHeader,
    "SEARCH_OFFSET_BY_TIMESTAMP": offset_headers.OffsetResponseHeader,
    "GET_EARLIEST_MSG_STORETIME": offset_headers.TimestampResponseHeader,
    "REGISTER_BROKER": namesrv.RegisterBrokerResponseHeader,
    "QUERY_DATA_VERSION": namesrv.QueryDataVersionResponseHeader,
    "GET_KV_CONFIG": namesrv.GetKVConfigResponseHeader,
    "WIPE_WRITE_PERM_OF_BROKER": namesrv.WipeWritePermResponseHeader,
    "ADD_WRITE_PERM_OF_BROKER": namesrv.AddWritePermResponseHeader,
    "GET_BROKER_CONFIG": admin.GetBrokerConfigResponseHeader,
    "GET_BROKER_CLUSTER_ACL_INFO": admin.GetBrokerAclConfigResponseHeader,
    "PULL_NOT_FOUND": pull.PullMessageResponseHeader,  # its request came before the recording
}
REQUEST_BODIES: dict[str, type[Body]] = {
    "HEART_BEAT": heartbeat.HeartbeatData,
    "CHECK_CLIENT_CONFIG": heartbeat.CheckClientRequestBody,
    "LOCK_BATCH_MQ": offsets.LockBatchRequestBody,
    "UNLOCK_BATCH_MQ": offsets.LockBatchRequestBody,
    "RESET_CONSUMER_CLIENT_OFFSET": offsets.ResetOffsetBody,
    "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP": groups.GroupConfig,
}
RESPONSE_BODIES: dict[str, type[Body]] = {
    "GET_ROUTEINFO_BY_TOPIC": route.TopicRouteData,
    "GET_BROKER_CLUSTER_INFO": route.ClusterInfo,
    "GET_ALL_TOPIC_LIST_FROM_NAMESERVER": common.TopicList,
    "GET_TOPICS_BY_CLUSTER": common.TopicList,
    "GET_SYSTEM_TOPIC_LIST_FROM_NS": common.TopicList,
    "QUERY_TOPIC_CONSUME_BY_WHO": common.GroupList,
    "GET_KVLIST_BY_NAMESPACE": common.KVTable,
    "GET_BROKER_RUNTIME_INFO": common.KVTable,
    "QUERY_DATA_VERSION": common.DataVersion,
    "GET_ALL_TOPIC_CONFIG": topics.TopicConfigSerializeWrapper,
    "GET_TOPIC_STATS_INFO": topics.TopicStatsTable,
    "QUERY_CONSUME_TIME_SPAN": topics.QueryConsumeTimeSpanBody,
    "GET_CONSUMER_LIST_BY_GROUP": heartbeat.GetConsumerListByGroupResponseBody,
    "LOCK_BATCH_MQ": offsets.LockBatchResponseBody,
    "GET_ALL_CONSUMER_OFFSET": offsets.ConsumerOffsetSerializeWrapper,
    "GET_ALL_DELAY_OFFSET": offsets.DelayOffsetSerializeWrapper,
    "INVOKE_BROKER_TO_RESET_OFFSET": offsets.ResetOffsetBody,
    "QUERY_CORRECTION_OFFSET": offsets.QueryCorrectionOffsetBody,
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG": groups.SubscriptionGroupWrapper,
    "GET_CONSUMER_CONNECTION_LIST": groups.ConsumerConnection,
    "GET_PRODUCER_CONNECTION_LIST": groups.ProducerConnection,
    "GET_ALL_PRODUCER_INFO": groups.ProducerTableInfo,
    "GET_CONSUME_STATS": groups.ConsumeStats,
    "GET_BROKER_CONSUME_STATS": groups.ConsumeStatsList,
    "VIEW_BROKER_STATS_DATA": groups.BrokerStatsData,
    "GET_CONSUMER_RUNNING_INFO": running.ConsumerRunningInfo,
    "QUERY_CONSUME_QUEUE": running.QueryConsumeQueueResponseBody,
    "GET_BROKER_CLUSTER_ACL_CONFIG": acl.AclConfig,
}


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.name.split(".")[0])
def test_every_recorded_header_has_a_class(session):
    for recorded in frames(session):
        frame = decode(recorded.data)
        name, is_reply = recorded.request_name, frame.is_response
        if recorded.hand_made or name is None or not frame.fields.keys() - NOT_HEADER - ADDED:
            continue
        assert name in (RESPONSES if is_reply else REQUESTS), (
            f"add {name} to {'RESPONSES' if is_reply else 'REQUESTS'} in {__file__}"
        )


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.name.split(".")[0])
def test_headers(session):
    for recorded in frames(session):
        frame = decode(recorded.data)
        table = RESPONSES if frame.is_response else REQUESTS
        kind = table.get(recorded.request_name or "")
        if kind is None or recorded.hand_made or (frame.is_response and not frame.fields):
            continue
        if frame.is_response and "msgId" not in frame.fields and "TRACE_ON" in frame.fields:
            continue  # a refused send carries only the trace hook's fields
        wanted = {name: text for name, text in frame.fields.items() if name not in NOT_HEADER}
        assert kind.from_fields(frame.fields).to_fields() == wanted


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.name.split(".")[0])
def test_bodies(session):
    for recorded in frames(session):
        frame = decode(recorded.data)
        table = RESPONSE_BODIES if frame.is_response else REQUEST_BODIES
        kind = table.get(recorded.request_name or "")
        if kind is None or not frame.body or recorded.hand_made:
            continue
        body = kind.from_json(frame.body)
        assert kind.from_json(body.to_json()) == body
        if kind is not running.ConsumerRunningInfo:
            assert fastjson.loads(body.to_json()) == fastjson.loads(frame.body)


@pytest.mark.parametrize("session", [s for s in SESSIONS if "register" in s.name])
def test_registrations(session):
    seen = 0
    for recorded in frames(session):
        if recorded.line["code_name"] != "REGISTER_BROKER" or recorded.line["flag"] & 1:
            continue
        frame = decode(recorded.data)
        header = namesrv.RegisterBrokerRequestHeader.from_fields(frame.fields)
        body = topics.RegisterBrokerBody.decode(frame.body, header.compressed)
        wrapper = body.topic_config_serialize_wrapper
        assert wrapper.topic_config_table["TBW102"].perm == 7
        if not header.compressed:
            assert fastjson.loads(body.encode()) == fastjson.loads(frame.body)
        assert topics.RegisterBrokerBody.decode(body.encode(True), True) == body
        seen += 1
    assert seen


def test_a_missing_or_bad_field_is_named():
    fields = {"topic": "T", "queueId": "x"}
    with pytest.raises(HeaderError, match="queueId='x'"):
        offset_headers.QueueRequestHeader.from_fields(fields)
    with pytest.raises(HeaderError, match="queueId is missing"):
        offset_headers.QueueRequestHeader.from_fields({"topic": "T", "queueId": ""})


def test_queue_keys_are_raw_objects_as_java_writes_them():
    body = offsets.ResetOffsetBody({MessageQueue("T", "broker-a", 0): 7})
    text = b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:7}}'
    assert body.to_json() == text
    assert offsets.ResetOffsetBody.from_json(text) == body
    key = json.dumps('{"brokerName":"broker-a","queueId":0,"topic":"T"}')
    quoted = f'{{"offsetTable":{{{key}:"7"}}}}'
    assert offsets.ResetOffsetBody.from_json(quoted) == body


def test_a_body_of_another_shape_is_an_error():
    with pytest.raises(BodyError, match="TopicRouteData"):
        route.TopicRouteData.from_json(b"[]")
    with pytest.raises(BodyError, match="queueDatas"):
        route.TopicRouteData.from_json(b'{"queueDatas":[{}]}')
    with pytest.raises(BodyError, match="compressed"):
        topics.RegisterBrokerBody.decode(b"no zlib", compressed=True)
