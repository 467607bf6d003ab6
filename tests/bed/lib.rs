//! The test bed: whole, real Kubernetes clusters on one machine, in seconds.
