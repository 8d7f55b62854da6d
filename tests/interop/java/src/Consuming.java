import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** A concurrent push consumer which prints every message it is given. */
final class Consuming {
    private final String id;
    private final int failures;
    private final DefaultMQPushConsumer consumer;

    Consuming(JSONObject command) throws Exception {
        id = command.getString("id");
        failures = command.getIntValue("failures");
        consumer = new DefaultMQPushConsumer(command.getString("group"));
        consumer.setNamesrvAddr(command.getString("namesrv"));
        consumer.setInstanceName("consumer" + id);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(command.getString("topic"), command.getString("tags"));
        consumer.setAwaitTerminationMillisWhenShutdown(5000); // commits what is being consumed
        consumer.registerMessageListener(this::consume);
        consumer.start();
    }

    void close() {
        consumer.shutdown();
    }

    private ConsumeConcurrentlyStatus consume(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        MessageExt first = messages.get(0);
        messages.forEach(message -> Driver.emit(id, "message", describe(message)));
        if (first.getReconsumeTimes() < failures) {
            context.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
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
