//! The calls that go up from the store to its user.
//!
//! A thread of the store makes them, so a panic in one must not end that thread, nor poison the
//! store. It is caught here, logged, and counted in [`Services`] under the name of the listener.
//! Only the listener of deliveries is called without this: the round of its thread is such a unit
//! already, and is repeated.

use std::sync::{Arc, OnceLock};

use thiserror::Error;

use mq_base::services::Services;

/// A store takes one listener of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this store has its {0} already: one server may use it at a time")]
pub struct AlreadyRegistered(&'static str);

/// What a user of the store registered, or may register still.
pub(crate) struct Listener<F: ?Sized> {
    name: &'static str,
    registered: OnceLock<Registered<F>>,
}

struct Registered<F: ?Sized> {
    call: Box<F>,
    services: Arc<Services>,
}

impl<F: ?Sized> Listener<F> {
    /// None is registered.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name,
            registered: OnceLock::new(),
        }
    }

    /// Registers it; its panics are counted in `services`.
    pub(crate) fn register(
        &self,
        call: Box<F>,
        services: &Arc<Services>,
    ) -> Result<(), AlreadyRegistered> {
        let registered = Registered {
            call,
            services: Arc::clone(services),
        };
        register(&self.registered, registered, self.name)
    }

    /// Calls it; None if none is registered, or if it panicked.
    pub(crate) fn call<T>(&self, call: impl FnOnce(&F) -> T) -> Option<T> {
        let registered = self.registered.get()?;
        let services = &registered.services;
        services.round(self.name, || call(&registered.call)).ok()
    }
}

/// Fills the place of a listener, which stays filled.
pub(crate) fn register<T>(
    place: &OnceLock<T>,
    listener: T,
    name: &'static str,
) -> Result<(), AlreadyRegistered> {
    place.set(listener).map_err(|_| AlreadyRegistered(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Double = dyn Fn(i32) -> i32 + Send + Sync;

    #[test]
    fn a_panic_is_counted_and_the_next_call_is_made() {
        let (listener, services) = (Listener::<Double>::new("double"), Arc::default());
        assert_eq!(listener.call(|double| double(2)), None, "nobody listens");
        let double = |number| {
            assert_ne!(number, 3, "of the listener");
            2 * number
        };
        listener.register(Box::new(double), &services).unwrap();
        assert_eq!(listener.call(|double| double(3)), None);
        let failures = services.all()["double"].clone();
        assert_eq!(failures.count, 1);
        assert!(failures.now.unwrap().contains("of the listener"));
        assert_eq!(listener.call(|double| double(4)), Some(8));
        assert_eq!(services.all()["double"].now, None);
    }

    #[test]
    fn a_second_registration_is_an_error() {
        let (listener, services) = (Listener::<Double>::new("double"), Arc::default());
        listener
            .register(Box::new(|number| number), &services)
            .unwrap();
        let error = listener.register(Box::new(|_| 0), &services).unwrap_err();
        assert!(error.to_string().contains("has its double already"));
        assert_eq!(
            listener.call(|double| double(7)),
            Some(7),
            "the first one stays"
        );
    }
}
