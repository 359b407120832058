.PHONY: image-test
## image-test: build the container image on a base made by debootstrap and run what is in it (root)
image-test:
	$(Q)test/image/image.sh
