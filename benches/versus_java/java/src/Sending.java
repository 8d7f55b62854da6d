import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;

/**
 * "threads" that send Requests synchronously through one producer.
 *
 * <p>With a "rate" (messages per second of all threads) each request has its time, and its latency counts
 * from that time, sent late or not: a slow answer is not hidden by the requests it held up.
 */
final class Sending {
    /** What was due in time is sent so much later still: a stall at the end counts too. */
    private static final long GRACE_NANOS = 10_000_000_000L;

    private final DefaultMQProducer producer;
    private final Requests requests;
    private final int threads;
    private final double nanosPerRequest;
    private long start;
    private long end;

    Sending(DefaultMQProducer producer, JSONObject command) {
        this.producer = producer;
        requests = new Requests(command);
        threads = command.getIntValue("threads");
        double rate = command.getDoubleValue("rate");
        nanosPerRequest = rate > 0 ? requests.batch * 1e9 / rate : 0;
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
        return requests.report(end - start);
    }

    private void work(int number) {
        Latencies mine = new Latencies();
        long now = System.nanoTime();
        long most = requests.nanos + (nanosPerRequest > 0 ? GRACE_NANOS : 0);
        for (long i = 0; now - start < most; i++) {
            long due = nanosPerRequest > 0 ? start + (long) ((i * threads + number) * nanosPerRequest) : now;
            if (due - start >= requests.nanos) {
                break;
            }
            for (long wait = due - System.nanoTime(); wait > 0; wait = due - System.nanoTime()) {
                LockSupport.parkNanos(wait);
            }
            boolean isSent = isSent();
            now = System.nanoTime();
            if (isSent) {
                mine.add(now - due);
            }
        }
        synchronized (requests.latencies) {
            requests.latencies.addAll(mine);
            end = Math.max(end, now);
        }
    }

    private boolean isSent() {
        try {
            SendResult result = send();
            if (result.getSendStatus() == SendStatus.SEND_OK) {
                return true;
            }
            requests.refuse(result.toString());
        } catch (Exception failed) {
            requests.refuse(failed.toString());
        }
        return false;
    }

    private SendResult send() throws Exception {
        return requests.batch == 1 ? producer.send(requests.message()) : producer.send(requests.messages());
    }
}
