module snap-csi/test/kubeclient/peer

go 1.25.0
