job "web" {
  datacenters = ["*"]

  group "web" {
    volume "data" {
      type            = "csi"
      source          = "data"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "web" {
      driver = "docker"

      config {
        image   = "docker.io/library/busybox:stable"
        command = "httpd"
        args    = ["-f", "-h", "/srv"]
      }

      volume_mount {
        volume      = "data"
        destination = "/srv"
      }
    }
  }
}
