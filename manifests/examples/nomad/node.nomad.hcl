job "snap-csi-node" {
  datacenters = ["*"]
  type        = "system"

  group "node" {
    task "node" {
      driver = "docker"

      config {
        image      = "localhost/snap-csi:1.0.0"
        privileged = true
        pid_mode   = "host"
        volumes = [
          "/lib/modules:/lib/modules:ro",
          "/var/lib/snap-csi:/var/lib/snap-csi",
        ]
        args = [
          "--mode=node",
          "--node-id=${attr.unique.hostname}",
          "--kubelet-dir=/local/csi",
          "--plugin-dir=/var/lib/snap-csi",
          "--v=2",
        ]
      }

      csi_plugin {
        id        = "snap-csi"
        type      = "node"
        mount_dir = "/csi"
      }

      resources {
        cpu    = 100
        memory = 64
      }

      kill_timeout = "30s"
    }
  }
}
