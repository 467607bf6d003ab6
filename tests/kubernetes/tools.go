//go:build tools

// Keeps the Kubernetes project's own test server and end-to-end suite in go.mod.
package main

import (
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/images/agnhost"
)
