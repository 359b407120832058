// Where the module begins; go build reads v1.VERSION.mod instead (test/kube/rules.mk).
module snapcsi.invalid/test/kube/tools/older
