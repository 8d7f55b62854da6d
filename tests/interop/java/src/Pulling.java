import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
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
        consumer.setMqClientApiTimeout(Driver.API_MILLIS);
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
        consumer.setMqClientApiTimeout(Driver.API_MILLIS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        boolean assigned = command.getBooleanValue("assigned");
        Set<MessageQueue> queues = queues(command);
        if (assigned) {
            // A pull that is under way when its queue is sought brings messages twice, and then the
            // client forgets how far it read: none is while they are paused.
            consumer.assign(queues);
            consumer.pause(queues);
        } else {
            consumer.subscribe(topic, command.getString("tags"));
        }
        consumer.start();
        try {
            if (assigned) {
                for (MessageQueue queue : queues) {
                    consumer.seekToBegin(queue);
                }
                consumer.resume(queues);
            }
            List<MessageExt> found = new ArrayList<>();
            long deadline = System.nanoTime() + 90_000_000_000L;
            while (found.size() < count && System.nanoTime() < deadline) {
                found.addAll(consumer.poll(500));
            }
            consumer.commitSync();
            JSONObject fields = new JSONObject();
            long committed = 0;
            for (MessageQueue queue : queues) {
                committed += Math.max(0, consumer.committed(queue));
            }
            fields.put("committed", committed);
            fields.put("bodies", bodies(found));
            return fields;
        } finally {
            consumer.shutdown();
        }
    }

    /** The queues of the topic, asked by a client of its own. */
    private static Set<MessageQueue> queues(JSONObject command) throws Exception {
        DefaultMQPullConsumer asking = new DefaultMQPullConsumer(command.getString("group") + "_asking");
        asking.setNamesrvAddr(command.getString("namesrv"));
        asking.setInstanceName("asking" + command.getString("id"));
        asking.setMqClientApiTimeout(Driver.API_MILLIS);
        asking.start();
        try {
            return asking.fetchSubscribeMessageQueues(command.getString("topic"));
        } finally {
            asking.shutdown();
        }
    }

    private static JSONArray bodies(List<MessageExt> messages) {
        JSONArray bodies = new JSONArray();
        messages.forEach(message -> bodies.add(new String(message.getBody(), StandardCharsets.UTF_8)));
        return bodies;
    }
}
