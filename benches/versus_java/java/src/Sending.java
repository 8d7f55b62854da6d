import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Threads that send synchronously through one producer for "seconds": "threads", "bodyBytes", "batch"
 * messages a request.
 *
 * <p>With a "rate" (messages per second of all threads) each request has its time, and its latency counts
 * from that time, sent late or not: a slow answer is not hidden by the requests it held up. Requests that a
 * busy broker refuses are counted and have no latency; a run fails when all are refused.
 */
final class Sending {
    private final DefaultMQProducer producer;
    private final String topic;
    private final int threads;
    private final int batch;
    private final byte[] body;
    private final long nanos;
    private final double nanosPerRequest;
    private final AtomicReference<String> error = new AtomicReference<>();
    private final AtomicLong refused = new AtomicLong();
    private final Latencies all = new Latencies();
    private long start;
    private long end;

    Sending(DefaultMQProducer producer, JSONObject command) {
        this.producer = producer;
        topic = command.getString("topic");
        threads = command.getIntValue("threads");
        batch = command.getIntValue("batch");
        body = new byte[command.getIntValue("bodyBytes")];
        nanos = (long) (command.getDoubleValue("seconds") * 1e9);
        double rate = command.getDoubleValue("rate");
        nanosPerRequest = rate > 0 ? batch * 1e9 / rate : 0;
    }

    JSONObject run() throws InterruptedException {
        List<Thread> running = new ArrayList<>();
        start = System.nanoTime();
        for (int i = 0; i < threads; i++) {
            int number = i;
            running.add(new Thread(() -> work(number)));
        }
        running.forEach(Thread::start);
        for (Thread thread : running) {
            thread.join();
        }
        if (all.isEmpty()) {
            throw new IllegalStateException(error.get());
        }
        JSONObject report = all.report(batch, (end - start) / 1e9);
        JSONObject byReason = new JSONObject();
        byReason.put(String.valueOf(error.get()), refused.get());
        report.put("refused", byReason);
        return report;
    }

    private void work(int number) {
        Latencies mine = new Latencies();
        long now = System.nanoTime();
        for (long i = 0; now - start < nanos; i++) {
            long due = nanosPerRequest > 0 ? start + (long) ((i * threads + number) * nanosPerRequest) : now;
            if (due - start >= nanos) {
                break;
            }
            for (long wait = due - System.nanoTime(); wait > 0; wait = due - System.nanoTime()) {
                LockSupport.parkNanos(wait);
            }
            boolean isSent = isSent();
            now = System.nanoTime();
            if (isSent) {
                mine.add(now - due);
            } else {
                refused.incrementAndGet();
            }
        }
        synchronized (all) {
            all.addAll(mine);
            end = Math.max(end, now);
        }
    }

    private boolean isSent() {
        try {
            SendResult result = send();
            if (result.getSendStatus() == SendStatus.SEND_OK) {
                return true;
            }
            error.compareAndSet(null, result.toString());
        } catch (Exception failed) {
            error.compareAndSet(null, failed.toString());
        }
        return false;
    }

    private SendResult send() throws Exception {
        if (batch == 1) {
            return producer.send(new Message(topic, body));
        }
        List<Message> messages = new ArrayList<>(batch);
        for (int i = 0; i < batch; i++) {
            messages.add(new Message(topic, body));
        }
        return producer.send(messages);
    }
}
