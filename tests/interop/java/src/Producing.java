import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sends "count" messages, body prefix + number, and reports every SendResult. */
final class Producing {
    private Producing() {
    }

    static JSONObject run(DefaultMQProducer producer, JSONObject command) throws Exception {
        List<Message> messages = messages(command);
        JSONArray results = new JSONArray();
        if (command.getBooleanValue("batch")) {
            results.add(describe(producer.send(messages)));
        } else {
            for (Message message : messages) {
                results.add(describe(send(producer, message, command)));
            }
        }
        JSONObject fields = new JSONObject();
        fields.put("results", results);
        return fields;
    }

    /** Asks and waits for the answer. */
    static JSONObject request(DefaultMQProducer producer, JSONObject command) throws Exception {
        Message message = new Message(command.getString("topic"),
                command.getString("body").getBytes(StandardCharsets.UTF_8));
        Message answer = producer.request(message, 60_000);
        JSONObject fields = new JSONObject();
        fields.put("body", new String(answer.getBody(), StandardCharsets.UTF_8));
        return fields;
    }

    private static SendResult send(DefaultMQProducer producer, Message message, JSONObject command)
            throws Exception {
        Integer queueId = command.getInteger("queueId");
        if (queueId == null) {
            return producer.send(message);
        }
        return producer.send(message, (queues, sent, wanted) -> queues.stream()
                .filter(queue -> wanted.equals(queue.getQueueId())).findFirst().orElseThrow(), queueId);
    }

    private static List<Message> messages(JSONObject command) {
        List<Message> messages = new ArrayList<>();
        int padding = command.getIntValue("padding"); // above 4096 bytes the client compresses
        for (int i = 0; i < command.getIntValue("count"); i++) {
            String body = command.getString("body") + i + "x".repeat(padding);
            Message message = new Message(command.getString("topic"), command.getString("tags"),
                    body.getBytes(StandardCharsets.UTF_8));
            if (command.containsKey("keys")) {
                message.setKeys(command.getString("keys") + i);
            }
            if (command.containsKey("number")) {
                message.putUserProperty(command.getString("number"), Integer.toString(i));
            }
            if (command.containsKey("delayLevel")) {
                message.setDelayTimeLevel(command.getIntValue("delayLevel"));
            }
            messages.add(message);
        }
        return messages;
    }

    private static JSONObject describe(SendResult result) {
        MessageQueue queue = result.getMessageQueue();
        JSONObject fields = new JSONObject();
        fields.put("status", result.getSendStatus().name());
        fields.put("msgId", result.getMsgId());
        fields.put("offsetMsgId", result.getOffsetMsgId());
        fields.put("brokerName", queue.getBrokerName());
        fields.put("queueId", queue.getQueueId());
        fields.put("queueOffset", result.getQueueOffset());
        return fields;
    }
}
