import com.alibaba.fastjson.JSONObject;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;

/** One thread that keeps "inFlight" Requests with callbacks on their way through one producer. */
final class AsyncSending {
    private static final int DEADLINE_SECONDS = 30;
    private final DefaultMQProducer producer;
    private final Requests requests;
    private final int inFlight;
    private final Semaphore places;

    AsyncSending(DefaultMQProducer producer, JSONObject command) {
        this.producer = producer;
        requests = new Requests(command);
        inFlight = command.getIntValue("inFlight");
        places = new Semaphore(inFlight);
    }

    JSONObject run() throws Exception {
        long start = System.nanoTime();
        while (System.nanoTime() - start < requests.nanos) {
            places.acquire();
            send();
        }
        if (!places.tryAcquire(inFlight, DEADLINE_SECONDS, TimeUnit.SECONDS)) {
            throw new IllegalStateException("sends without an answer");
        }
        return requests.report(System.nanoTime() - start);
    }

    private void send() throws Exception {
        SendCallback callback = answered(System.nanoTime());
        if (requests.batch == 1) {
            producer.send(requests.message(), callback);
        } else {
            producer.send(requests.messages(), callback);
        }
    }

    private SendCallback answered(long sent) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                if (result.getSendStatus() == SendStatus.SEND_OK) {
                    synchronized (requests.latencies) {
                        requests.latencies.add(System.nanoTime() - sent);
                    }
                } else {
                    requests.refuse(result.toString());
                }
                places.release();
            }

            @Override
            public void onException(Throwable failed) {
                requests.refuse(failed.toString());
                places.release();
            }
        };
    }
}
