import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * One thread that keeps "inFlight" sends with callbacks on their way through one producer for "seconds":
 * "bodyBytes", "batch" messages a request, as in Sending. A run fails when all are refused.
 */
final class AsyncSending {
    private static final int DEADLINE_SECONDS = 30;
    private final DefaultMQProducer producer;
    private final String topic;
    private final int inFlight;
    private final int batch;
    private final byte[] body;
    private final long nanos;
    private final Semaphore places;
    private final AtomicReference<String> error = new AtomicReference<>();
    private final AtomicLong refused = new AtomicLong();
    private final Latencies all = new Latencies();

    AsyncSending(DefaultMQProducer producer, JSONObject command) {
        this.producer = producer;
        topic = command.getString("topic");
        inFlight = command.getIntValue("inFlight");
        batch = command.getIntValue("batch");
        body = new byte[command.getIntValue("bodyBytes")];
        nanos = (long) (command.getDoubleValue("seconds") * 1e9);
        places = new Semaphore(inFlight);
    }

    JSONObject run() throws Exception {
        long start = System.nanoTime();
        while (System.nanoTime() - start < nanos) {
            places.acquire();
            send();
        }
        if (!places.tryAcquire(inFlight, DEADLINE_SECONDS, TimeUnit.SECONDS)) {
            throw new IllegalStateException("sends without an answer");
        }
        long end = System.nanoTime();
        if (all.isEmpty()) {
            throw new IllegalStateException(error.get());
        }
        JSONObject report = all.report(batch, (end - start) / 1e9);
        JSONObject byReason = new JSONObject();
        byReason.put(String.valueOf(error.get()), refused.get());
        report.put("refused", byReason);
        return report;
    }

    private void send() throws Exception {
        SendCallback callback = answered(System.nanoTime());
        if (batch == 1) {
            producer.send(new Message(topic, body), callback);
            return;
        }
        List<Message> messages = new ArrayList<>(batch);
        for (int i = 0; i < batch; i++) {
            messages.add(new Message(topic, body));
        }
        producer.send(messages, callback);
    }

    private SendCallback answered(long sent) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                if (result.getSendStatus() == SendStatus.SEND_OK) {
                    synchronized (all) {
                        all.add(System.nanoTime() - sent);
                    }
                    places.release();
                } else {
                    refuse(result.toString());
                }
            }

            @Override
            public void onException(Throwable failed) {
                refuse(failed.toString());
            }
        };
    }

    private void refuse(String why) {
        error.compareAndSet(null, why);
        refused.incrementAndGet();
        places.release();
    }
}
