//! Connection storms.

use super::*;

fn settings(broker: &Fake) -> Connect {
    Connect {
        load: Load {
            duration_s: 0.1,
            ..load(broker)
        },
        connections: 60,
        rate: 1000.0,
        ..Connect::default()
    }
}

#[test]
fn connections_open_send_heartbeats_and_stay() {
    for role in [Role::Silent, Role::Producer, Role::Consumer] {
        let broker = Fake::start(Faults::default());
        let settings = Connect {
            role,
            heartbeat_s: 0.02,
            groups: 7,
            ..settings(&broker)
        };
        let report = connect(&settings, &NEVER).unwrap();
        assert_eq!((report.messages, report.latency_us.count), (60, 60));
        assert_eq!((report.total("tried"), report.total("connected")), (60, 60));
        let beats = report.total("heartbeats");
        // A connection that is not silent sends a heartbeat at first, and more while it is open.
        assert!(
            if role == Role::Silent {
                beats == 0
            } else {
                beats > 60
            },
            "{beats}"
        );
        assert_eq!(report.problems, Vec::<String>::new());
    }
}

#[test]
fn a_connection_that_the_broker_closes_is_a_problem() {
    let broker = Fake::start(Faults {
        drop_at_heartbeat: 30,
        ..Faults::default()
    });
    let report = connect(&settings(&broker), &NEVER).unwrap();
    assert_eq!(
        (report.total("connected"), report.total("dropped")),
        (60, 1)
    );
    assert_eq!(report.problems.len(), 2, "{:?}", report.problems);
}

#[test]
fn no_broker_and_too_many_files_are_errors() {
    let mut settings = settings(&Fake::start(Faults::default()));
    settings.load.address_map = [(settings.load.namesrv.clone(), "127.0.0.1:1".to_owned())].into();
    let error = connect(&settings, &NEVER).unwrap_err();
    assert!(matches!(&error, BenchError::Io { address, .. } if address == "127.0.0.1:1"));
    settings.connections = 0;
    let error = connect(&settings, &NEVER).unwrap_err();
    assert_eq!(
        error.to_string(),
        "connections 0 is not between 1 and 100000"
    );
}
