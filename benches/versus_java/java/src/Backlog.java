import com.alibaba.fastjson.JSONObject;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer of the new "group" that reads "topic" from its first message until it has had "count", at
 * most "atOnce" of them in a call, and reads the body and a property of each; timed from the first message
 * it is given.
 */
final class Backlog {
    private static final int DEADLINE_SECONDS = 60;
    private final String group;
    private final String namesrv;
    private final String topic;
    private final long count;
    private final int atOnce;
    private final AtomicLong seen = new AtomicLong();
    private final AtomicLong read = new AtomicLong();
    private final AtomicLong start = new AtomicLong();
    private final CountDownLatch done = new CountDownLatch(1);
    private volatile long end;

    Backlog(JSONObject command) {
        group = command.getString("group");
        namesrv = command.getString("namesrv");
        topic = command.getString("topic");
        count = command.getLongValue("count");
        atOnce = command.getIntValue("atOnce");
    }

    JSONObject run() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("consumer@" + namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(atOnce);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(this::consume);
        consumer.start();
        try {
            if (!done.await(DEADLINE_SECONDS, TimeUnit.SECONDS)) {
                throw new IllegalStateException(seen.get() + " of " + count + " messages");
            }
        } finally {
            consumer.shutdown();
        }
        JSONObject report = new JSONObject(true);
        report.put("messages", seen.get());
        report.put("bytes", read.get());
        report.put("messages_per_second", seen.get() * 1e9 / (end - start.get()));
        return report;
    }

    private ConsumeConcurrentlyStatus consume(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        start.compareAndSet(0, System.nanoTime());
        long bytes = 0;
        for (MessageExt message : messages) {
            bytes += message.getBody().length + message.getProperty("UNIQ_KEY").length();
        }
        read.addAndGet(bytes);
        if (seen.addAndGet(messages.size()) >= count && done.getCount() > 0) {
            end = System.nanoTime();
            done.countDown();
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }
}
