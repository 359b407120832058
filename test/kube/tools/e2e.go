// SPDX-License-Identifier: Apache-2.0

//go:build tools

package tools

// What only Kubernetes' own suite for storage drivers needs (make e2e-external): the suite itself, which is the test of
// its package, what runs its specs side by side, and the program in the image that its pods run.
import (
	_ "github.com/onsi/ginkgo/v2/ginkgo"
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/images/agnhost"
)
