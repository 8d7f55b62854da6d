import com.alibaba.fastjson.JSONObject;
import java.util.Arrays;

/** Every latency of a run in nanoseconds, so that percentiles are exact. */
final class Latencies {
    private long[] nanos = new long[1024];
    private int count;

    void add(long latency) {
        if (count == nanos.length) {
            nanos = Arrays.copyOf(nanos, 2 * count);
        }
        nanos[count++] = latency;
    }

    void addAll(Latencies other) {
        if (nanos.length < count + other.count) {
            nanos = Arrays.copyOf(nanos, Math.max(2 * nanos.length, count + other.count));
        }
        System.arraycopy(other.nanos, 0, nanos, count, other.count);
        count += other.count;
    }

    boolean isEmpty() {
        return count == 0;
    }

    /** The report of requests of `batch` messages each; names as those of `mqclient bench`. */
    JSONObject report(int batch, double seconds) {
        Arrays.sort(nanos, 0, count);
        JSONObject latency = new JSONObject(true);
        latency.put("p50", at(0.5));
        latency.put("p99", at(0.99));
        latency.put("p999", at(0.999));
        latency.put("p9999", at(0.9999));
        JSONObject report = new JSONObject(true);
        report.put("messages", (long) count * batch);
        report.put("seconds", seconds);
        report.put("messages_per_second", count * batch / seconds);
        report.put("latency_us", latency);
        return report;
    }

    private double at(double quantile) {
        return count == 0 ? 0 : nanos[Math.max(0, (int) Math.ceil(quantile * count) - 1)] / 1e3;
    }
}
