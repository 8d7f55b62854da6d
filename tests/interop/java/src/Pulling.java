import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Java's two consumers that ask for themselves: each reads a topic to its end. */
final class Pulling {
    private static final int AT_ONCE = 4;

    private Pulling() {
    }

    /** A pull consumer: its offsets are read, kept at the broker, and searched by time. */
    static JSONObject pull(JSONObject command) throws Exception {
        String topic = command.getString("topic");
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(command.getString("group"));
        consumer.setNamesrvAddr(command.getString("namesrv"));
        consumer.setInstanceName("pull" + command.getString("id"));
        consumer.start();
        try {
            List<MessageExt> found = new ArrayList<>();
            JSONArray statuses = new JSONArray();
            JSONObject fields = new JSONObject();
            Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic);
            for (MessageQueue queue : queues) {
                long offset = consumer.minOffset(queue);
                PullResult result = consumer.pull(queue, command.getString("tags"), offset, AT_ONCE);
                while (result.getPullStatus() == PullStatus.FOUND) {
                    found.addAll(result.getMsgFoundList());
                    result = consumer.pull(queue, command.getString("tags"), result.getNextBeginOffset(), AT_ONCE);
                }
                statuses.add(result.getPullStatus().name());
                statuses.add(consumer.pull(queue, "*", 1_000_000, AT_ONCE).getPullStatus().name());
                consumer.updateConsumeOffset(queue, result.getNextBeginOffset());
                fields.put("kept " + queue.getQueueId(), consumer.fetchConsumeOffset(queue, false));
                fields.put("ends " + queue.getQueueId(), consumer.maxOffset(queue));
                fields.put("first by time " + queue.getQueueId(), consumer.searchOffset(queue, 0));
            }
            fields.put("statuses", statuses);
            fields.put("bodies", bodies(found));
            return fields;
        } finally {
            consumer.shutdown();
        }
    }

    /** A lite pull consumer, which subscribes, or is "assigned" all queues and seeks their start. */
    static JSONObject litePull(JSONObject command) throws Exception {
        String topic = command.getString("topic");
        int count = command.getIntValue("count");
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(command.getString("group"));
        consumer.setNamesrvAddr(command.getString("namesrv"));
        consumer.setInstanceName("lite" + command.getString("id"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        boolean assigned = command.getBooleanValue("assigned");
        if (!assigned) {
            consumer.subscribe(topic, command.getString("tags"));
        }
        consumer.start();
        try {
            if (assigned) {
                consumer.assign(consumer.fetchMessageQueues(topic));
                for (MessageQueue queue : consumer.fetchMessageQueues(topic)) {
                    consumer.seekToBegin(queue);
                }
            }
            // A pull that is under way when its queue is sought may still be taken by the client,
            // whose next one then brings the same messages.
            Map<String, MessageExt> found = new LinkedHashMap<>();
            long deadline = System.nanoTime() + 40_000_000_000L;
            while (found.size() < count && System.nanoTime() < deadline) {
                for (MessageExt message : consumer.poll(500)) {
                    found.put(message.getQueueId() + " " + message.getQueueOffset(), message);
                }
            }
            consumer.commitSync();
            JSONObject fields = new JSONObject();
            long committed = 0;
            for (MessageQueue queue : consumer.fetchMessageQueues(topic)) {
                committed += Math.max(0, consumer.committed(queue));
            }
            fields.put("committed", committed);
            fields.put("bodies", bodies(found.values()));
            return fields;
        } finally {
            consumer.shutdown();
        }
    }

    private static JSONArray bodies(Collection<MessageExt> messages) {
        JSONArray bodies = new JSONArray();
        messages.forEach(message -> bodies.add(new String(message.getBody(), StandardCharsets.UTF_8)));
        return bodies;
    }
}
