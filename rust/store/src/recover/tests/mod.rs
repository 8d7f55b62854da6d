//! Recovery at a start.

mod golden;
