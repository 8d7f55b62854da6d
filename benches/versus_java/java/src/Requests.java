import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.common.message.Message;

/**
 * What a load sends, and what became of it: "topic", "bodyBytes", "batch" messages a request, for "seconds".
 * Requests that a busy broker refuses are counted and have no latency; a run fails when all are refused.
 */
final class Requests {
    final int batch;
    final long nanos;
    /** Of requests that were stored; whoever adds holds its lock. */
    final Latencies latencies = new Latencies();
    private final String topic;
    private final byte[] body;
    private final AtomicReference<String> error = new AtomicReference<>();
    private final AtomicLong refused = new AtomicLong();

    Requests(JSONObject command) {
        topic = command.getString("topic");
        batch = command.getIntValue("batch");
        body = new byte[command.getIntValue("bodyBytes")];
        nanos = (long) (command.getDoubleValue("seconds") * 1e9);
    }

    Message message() {
        return new Message(topic, body);
    }

    List<Message> messages() {
        List<Message> messages = new ArrayList<>(batch);
        for (int i = 0; i < batch; i++) {
            messages.add(message());
        }
        return messages;
    }

    void refuse(String why) {
        error.compareAndSet(null, why);
        refused.incrementAndGet();
    }

    JSONObject report(long tookNanos) {
        if (latencies.isEmpty()) {
            throw new IllegalStateException(error.get());
        }
        JSONObject report = latencies.report(batch, tookNanos / 1e9);
        JSONObject byReason = new JSONObject();
        byReason.put(String.valueOf(error.get()), refused.get());
        report.put("refused", byReason);
        return report;
    }
}
