//! How things are said to people: the words and figures that the command line, the custom
//! resources' conditions, events and the demo have in common.

pub(crate) mod brief;
pub(crate) mod change;
pub(crate) mod deal;
pub(crate) mod focus;
pub(crate) mod leaving;
pub(crate) mod offer;
pub(crate) mod requirements;
pub(crate) mod style;
pub(crate) mod text;
pub(crate) mod unsold;
