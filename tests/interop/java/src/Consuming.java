import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/**
 * A push consumer which prints every message it is given: concurrent, or "orderly"; clustering, or
 * "broadcast"; by tags, or by "sql". With "answer" it replies to each message. It tells the broker
 * of itself and of its offsets every "beatMs", and asks for routes every "routeMs". A topic of "trace" gets what became of each message.
 * The first "failures" of a message come again after "delayLevel". With "retryQueues" it says, right
 * after its start, how many queues its group's retry topic has.
 */
final class Consuming {
    private final String id;
    private final int failures;
    private final int delayLevel;
    private final String answer;
    private final AtomicInteger shared = new AtomicInteger();
    private final DefaultMQPushConsumer consumer;

    Consuming(JSONObject command) throws Exception {
        id = command.getString("id");
        failures = command.getIntValue("failures");
        delayLevel = command.containsKey("delayLevel") ? command.getIntValue("delayLevel") : 1;
        answer = command.getString("answer");
        consumer = new DefaultMQPushConsumer(command.getString("group"), Account.hook(command),
                sharing(), command.containsKey("trace"), command.getString("trace"));
        consumer.setNamesrvAddr(command.getString("namesrv"));
        consumer.setInstanceName(Account.instance("consumer" + id, command));
        consumer.setMqClientApiTimeout(Driver.API_MILLIS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (command.getBooleanValue("broadcast")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        if (command.containsKey("sql")) {
            consumer.subscribe(command.getString("topic"), MessageSelector.bySql(command.getString("sql")));
        } else {
            consumer.subscribe(command.getString("topic"), command.getString("tags"));
        }
        if (command.containsKey("beatMs")) {
            consumer.setHeartbeatBrokerInterval(command.getIntValue("beatMs"));
            consumer.setPersistConsumerOffsetInterval(command.getIntValue("beatMs"));
        }
        if (command.containsKey("routeMs")) {
            consumer.setPollNameServerInterval(command.getIntValue("routeMs"));
        }
        consumer.setAwaitTerminationMillisWhenShutdown(5000); // commits what is being consumed
        if (command.getBooleanValue("orderly")) {
            consumer.registerMessageListener(this::consumeOrderly);
        } else {
            consumer.registerMessageListener(this::consume);
        }
        consumer.start();
        if (command.getBooleanValue("retryQueues")) {
            JSONObject fields = new JSONObject();
            fields.put("queues", retryQueues(command.getString("group")));
            Driver.emit(id, "retryQueues", fields);
        }
    }

    /** How many queues the group's retry topic has, or why that is not known. */
    private Object retryQueues(String group) {
        try {
            return consumer.fetchSubscribeMessageQueues(MixAll.getRetryTopic(group)).size();
        } catch (Exception error) {
            return error.toString();
        }
    }

    void close() {
        consumer.shutdown();
    }

    /** Counts how often the queues of a topic were shared: all is done then that the time before led to. */
    private AllocateMessageQueueAveragely sharing() {
        return new AllocateMessageQueueAveragely() {
            @Override
            public List<MessageQueue> allocate(
                    String group, String member, List<MessageQueue> queues, List<String> members) {
                shared.incrementAndGet();
                return super.allocate(group, member, queues, members);
            }
        };
    }

    /** The queues it holds, the version of each subscription, and how often queues were shared until then. */
    JSONObject held() {
        DefaultMQPushConsumerImpl inner = consumer.getDefaultMQPushConsumerImpl();
        JSONObject versions = new JSONObject();
        inner.getSubscriptionInner().forEach((topic, data) -> versions.put(topic, data.getSubVersion()));
        JSONObject fields = new JSONObject();
        fields.put("queues", inner.getRebalanceImpl().getProcessQueueTable().size());
        fields.put("versions", versions);
        fields.put("shared", shared.get());
        return fields;
    }

    private ConsumeConcurrentlyStatus consume(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        MessageExt first = messages.get(0);
        messages.forEach(message -> Driver.emit(id, "message", describe(message)));
        if (answer != null) {
            messages.stream().filter(message -> message.getProperty("REPLY_TO_CLIENT") != null)
                    .forEach(this::answer);
        }
        if (first.getReconsumeTimes() < failures) {
            context.setDelayLevelWhenNextConsume(delayLevel);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    private ConsumeOrderlyStatus consumeOrderly(List<MessageExt> messages, ConsumeOrderlyContext context) {
        messages.forEach(message -> Driver.emit(id, "message", describe(message)));
        return ConsumeOrderlyStatus.SUCCESS;
    }

    private void answer(MessageExt message) {
        try {
            byte[] body = (answer + new String(message.getBody(), StandardCharsets.UTF_8))
                    .getBytes(StandardCharsets.UTF_8);
            Message reply = MessageUtil.createReplyMessage(message, body);
            consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getDefaultMQProducer().send(reply);
        } catch (Exception error) {
            JSONObject fields = new JSONObject();
            fields.put("error", error.toString());
            Driver.emit(id, "unanswered", fields);
        }
    }

    private static JSONObject describe(MessageExt message) {
        JSONObject fields = new JSONObject();
        fields.put("topic", message.getTopic());
        fields.put("body", new String(message.getBody(), StandardCharsets.UTF_8));
        fields.put("tags", message.getTags());
        fields.put("keys", message.getKeys());
        fields.put("queueId", message.getQueueId());
        fields.put("queueOffset", message.getQueueOffset());
        fields.put("physicalOffset", message.getCommitLogOffset());
        fields.put("storeSize", message.getStoreSize());
        fields.put("bodyCrc", message.getBodyCRC());
        fields.put("msgId", message.getMsgId());
        fields.put("reconsumeTimes", message.getReconsumeTimes());
        fields.put("storeTimestamp", message.getStoreTimestamp());
        fields.put("properties", message.getProperties());
        return fields;
    }
}
