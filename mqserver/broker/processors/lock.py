"""Codes 41 and 42, queue locks (`AdminBrokerProcessor`). The Rust data plane owns the locks."""

from __future__ import annotations

from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.offsets import LockBatchRequestBody, LockBatchResponseBody
from mqserver.broker.context import BrokerContext
from mqserver.broker.remarks import system_error
from mqserver.runtime.data_plane import Queue
from mqserver.runtime.guard import host_of
from mqserver.runtime.processor_api import Reply, Request, Response


def lock(broker: BrokerContext, request: Request) -> Reply:
    """LOCK_BATCH_MQ (41): locks queues for a client, and answers with the queues it now holds.

    At a limit, the remark names the setting of the limit.
    """
    body = LockBatchRequestBody.from_json(request.body)
    client = body.client_id, host_of(request.remote)
    held, remark = broker.lock(body.consumer_group, client, _queues(body))
    if remark is not None and not held:
        raise system_error(remark)
    granted = [MessageQueue(topic, name, queue_id) for topic, name, queue_id in held]
    return Response(remark=remark, body=LockBatchResponseBody(granted).to_json())


def unlock(broker: BrokerContext, request: Request) -> Reply:
    """UNLOCK_BATCH_MQ (42)."""
    body = LockBatchRequestBody.from_json(request.body)
    broker.unlock(body.consumer_group, body.client_id, _queues(body))
    return Response()


def _queues(body: LockBatchRequestBody) -> list[Queue]:
    return [(queue.topic, queue.broker_name, queue.queue_id) for queue in body.mq_set]
