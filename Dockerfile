# Strata's programs and Python tools. CPU:   docker build -t strata .
# With CUDA:  docker build -t strata --build-arg BASE=nvidia/cuda:13.0.1-devel-ubuntu24.04 .
# Run:        docker run --rm -it -v "$PWD":/data -w /data strata /opt/strata/tools/finetune.sh --help
# io_uring needs a seccomp profile that allows it (else libaio or threads are used, and said);
# pinned memory needs --ulimit memlock=-1; the card needs --gpus all.
ARG BASE=debian:12
FROM ${BASE}
SHELL ["/bin/bash", "-c"]

COPY tools/packages.sh /tmp/packages.sh
RUN . /tmp/packages.sh && apt-get update -qq && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      ca-certificates "${STRATA_PACKAGES[@]}" python3-venv && \
    rm -rf /var/lib/apt/lists/* /tmp/packages.sh

COPY . /opt/strata
WORKDIR /opt/strata
RUN . tools/packages.sh && . tools/python_env.sh && python_env && \
    cmake -S . -B build/programs -G Ninja -DCMAKE_BUILD_TYPE=Release -DSTRATA_TESTS=OFF && \
    cmake --build build/programs && ln -s /opt/strata/build/programs/bin/tier* /usr/local/bin/

CMD ["tierinfo"]
