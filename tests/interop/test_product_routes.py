"""A NameServer of a test cluster gives routes of the product environment, as Java's does."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import ask
from tests.address_list import AddressList
from tests.interop.java_servers import JavaNamesrv
from tests.namesrv.test_product import broker, name_server

TOPICS = ("Far", "Nowhere")


@pytest.mark.usefixtures("java")
def test_ours_answers_as_java_s_does(tmp_path: Path) -> None:
    settings = {"clusterTest": "true", "productEnvName": "shop"}
    product = name_server(tmp_path / "product")
    with AddressList(product.address) as listed, broker(product, "192.0.2.7:10911", "Far"):
        domain = f"-Drocketmq.namesrv.domain={listed.domain}"
        java = JavaNamesrv(tmp_path / "java", settings=settings, flags=(domain,))
        ours = name_server(
            tmp_path / "ours", **settings, **{"rocketmq.namesrv.domain": listed.domain}
        )
        try:
            for topic in TOPICS:
                request = Frame(105, {"topic": topic})
                theirs, mine = (ask(at.address, request) for at in (java, ours))
                assert mine.code == theirs.code
                assert mine.remark == theirs.remark
                # Deliberate: clients of RocketMQ 5 cannot read a route without it.
                body = mine.body.replace(b',"enableActingMaster":false', b"")
                assert body == theirs.body
            assert set(listed.asked) == {"/rocketmq/nsaddr-shop?nofix=1"}
        finally:
            ours.stop()
            java.discard()
            product.stop()
